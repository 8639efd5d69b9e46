package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// ApprovalPolicyRequest declares an approval policy, which holds jobs until a person approves or rejects
// them. It needs Name and at least one condition: Queue, TagKey, CostUSDGt or AgentIterationGt. An absent
// field gets its default, also when the request replaces a policy.
type ApprovalPolicyRequest struct {
	Name    string `json:"name"`              // unique among policies (CONFLICT), at most 128 bytes; shown with a held job
	Mode    string `json:"mode,omitempty"`    // any (the default): one condition suffices; all: a job must meet each
	Enabled *bool  `json:"enabled,omitempty"` // default true

	Queue            string      `json:"queue,omitempty"`              // the queue of the job
	TagKey           string      `json:"tag_key,omitempty"`            // the name of a tag of the job
	TagValue         string      `json:"tag_value,omitempty"`          // the value of that tag, "" = any value; requires TagKey
	CostUSDGt        *money.Nano `json:"cost_usd_gt,omitempty"`        // the job must have cost more than this
	AgentIterationGt *int        `json:"agent_iteration_gt,omitempty"` // the job must have ended more iterations than this, 0 to 10,000
}

// The values of an approval policy's Mode.
const (
	ModeAny = "any"
	ModeAll = "all"
)

// ApprovalPolicy is the response of GET /approval-policies/{id}. Its JSON always has every field.
type ApprovalPolicy struct {
	ID               string      `json:"id"`
	Name             string      `json:"name"`
	Mode             string      `json:"mode"` // any or all
	Enabled          bool        `json:"enabled"`
	Queue            *string     `json:"queue"`
	TagKey           *string     `json:"tag_key"`
	TagValue         *string     `json:"tag_value"`
	CostUSDGt        *money.Nano `json:"cost_usd_gt"`
	AgentIterationGt *int        `json:"agent_iteration_gt"`
	CreatedAt        Time        `json:"created_at"`

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}

// ApproveRequest changes a held job while approving it. An absent field leaves the job as it is.
type ApproveRequest struct {
	Payload    json.RawMessage `json:"payload,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Agent      *AgentChanges   `json:"agent,omitempty"` // only for an agent's job
}

// AgentChanges are new limits of an agent, above 0. An absent limit stays. If the job has already reached one
// of the limits, new or old, the error is STATE_CONFLICT.
type AgentChanges struct {
	MaxIterations    *int        `json:"max_iterations,omitempty"`
	MaxCostUSD       *money.Nano `json:"max_cost_usd,omitempty"`
	IterationTimeout Duration    `json:"iteration_timeout,omitempty"`
}
