package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// ApprovalPolicyRequest describes an approval policy: which jobs are held until a
// person approves them. It has at least one condition; what is absent is none.
type ApprovalPolicyRequest struct {
	Name    string `json:"name"`              // unique among policies; a held job says it
	Mode    string `json:"mode,omitempty"`    // any (the default) or all of the conditions must hold
	Enabled *bool  `json:"enabled,omitempty"` // default true

	Queue            string      `json:"queue,omitempty"`     // the job is in this queue
	TagKey           string      `json:"tag_key,omitempty"`   // it has this tag
	TagValue         string      `json:"tag_value,omitempty"` // with this value; goes with TagKey
	CostUSDGt        *money.Nano `json:"cost_usd_gt,omitempty"`
	AgentIterationGt *int        `json:"agent_iteration_gt,omitempty"` // more of its iterations have ended
}

// The words of an approval policy's Mode.
const (
	ModeAny = "any"
	ModeAll = "all"
)

// ApprovalPolicy is an approval policy as GET /approval-policies/{id} answers it.
// Every field is always present in its JSON.
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

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}

// ApproveRequest is what a person changes of a held job when approving it. What is
// absent stays.
type ApproveRequest struct {
	Payload    json.RawMessage `json:"payload,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Agent      *AgentChanges   `json:"agent,omitempty"` // of an agent's job
}

// AgentChanges are new bounds for an agent. Those that are absent stay.
type AgentChanges struct {
	MaxIterations    *int        `json:"max_iterations,omitempty"`
	MaxCostUSD       *money.Nano `json:"max_cost_usd,omitempty"`
	IterationTimeout Duration    `json:"iteration_timeout,omitempty"`
}
