package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// ApprovalPolicyRequest declares an approval policy, which holds jobs until a person approves or rejects
// them. It needs at least one condition: Queue, TagKey, CostUSDGt or AgentIterationGt.
type ApprovalPolicyRequest struct {
	Name    string `json:"name"`              // unique among policies; shown with a held job
	Mode    string `json:"mode,omitempty"`    // conditions that a job must meet: any (the default) or all
	Enabled *bool  `json:"enabled,omitempty"` // default true

	Queue            string      `json:"queue,omitempty"`              // the queue of the job
	TagKey           string      `json:"tag_key,omitempty"`            // the name of a tag of the job
	TagValue         string      `json:"tag_value,omitempty"`          // the value of that tag, "" = any value; requires TagKey
	CostUSDGt        *money.Nano `json:"cost_usd_gt,omitempty"`        // the job must have cost more than this
	AgentIterationGt *int        `json:"agent_iteration_gt,omitempty"` // the job must have ended more iterations than this
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

// AgentChanges are new limits of an agent. An absent limit stays. The error is STATE_CONFLICT if the job has
// already reached a limit that it would have after the change.
type AgentChanges struct {
	MaxIterations    *int        `json:"max_iterations,omitempty"`
	MaxCostUSD       *money.Nano `json:"max_cost_usd,omitempty"`
	IterationTimeout Duration    `json:"iteration_timeout,omitempty"`
}
