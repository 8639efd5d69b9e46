package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// Agent makes a job run in iterations, within limits that the server enforces. A job that has reached
// MaxIterations or MaxCostUSD is held before it runs again, until a person approves or rejects it. A job is
// also held if its cost_estimate_usd exceeds what is left of MaxCostUSD. An attempt that reaches
// IterationTimeout loses its lease. An absent field or 0 means no limit, except that no job continues after
// 10,000 iterations. The zero Agent counts as absent.
type Agent struct {
	MaxIterations    int        `json:"max_iterations,omitempty"`    // at most 10,000
	MaxCostUSD       money.Nano `json:"max_cost_usd,omitempty"`      // of all attempts together
	IterationTimeout Duration   `json:"iteration_timeout,omitempty"` // the longest time for one attempt at an iteration, with or without heartbeats; at most 24h
}

// FetchedAgent is the state of an agent's job at a fetch. In its limits, 0 or "0s" means no limit.
type FetchedAgent struct {
	MaxIterations    int        `json:"max_iterations"`
	MaxCostUSD       money.Nano `json:"max_cost_usd"`
	IterationTimeout Duration   `json:"iteration_timeout"`
	Iteration        int        `json:"iteration"`      // the iteration of this attempt, from 1
	TotalCostUSD     money.Nano `json:"total_cost_usd"` // of the job so far, as counted against max_cost_usd
}

// The values of AckRequest.AgentStatus.
const (
	AgentContinue = "continue" // the job goes on with its next iteration, after its tool calls have settled
	AgentHold     = "hold"     // the job is held until a person approves or rejects it
	AgentDone     = "done"     // the job is completed; the default
)

// Iteration is one ended iteration of an agent's job.
type Iteration struct {
	Iteration  int             `json:"iteration"`
	Status     string          `json:"status"` // continue, hold or done
	HoldReason *string         `json:"hold_reason"`
	Checkpoint json.RawMessage `json:"checkpoint"` // the job's checkpoint at the end of the iteration; null if there is none
	Trace      json.RawMessage `json:"trace"`
	Result     json.RawMessage `json:"result"`
	Usage      *Usage          `json:"usage"` // of this iteration alone, including its failed attempts
	CostUSD    money.Nano      `json:"cost_usd"`
	Attempt    int             `json:"attempt"` // the attempt that ended it
	WorkerID   *string         `json:"worker_id"`
	StartedAt  Time            `json:"started_at"` // when that attempt started
	CreatedAt  Time            `json:"created_at"` // when the iteration ended
}

// Iterations is a page of the iterations of a job, the oldest first. If HasMore is true, the query parameter
// after=N requests the page after iteration N.
type Iterations struct {
	Iterations []Iteration `json:"iterations"`
	HasMore    bool        `json:"has_more"`
}

// ReplayRequest creates a new job that repeats iteration From of an existing job and continues from there.
type ReplayRequest struct {
	From int `json:"from"` // 1 to 10,000
}

// ScoreRequest rates a job. For each pair of dimension and scorer the server keeps only the latest value. The
// error is CONFLICT if a new pair would be the job's 101st.
type ScoreRequest struct {
	Dimension string   `json:"dimension"`        // required; at most 128 bytes
	Value     *float64 `json:"value"`            // required
	Scorer    string   `json:"scorer,omitempty"` // at most 128 bytes
}

// Score is a rating of a job.
type Score struct {
	Dimension string  `json:"dimension"`
	Value     float64 `json:"value"`
	Scorer    string  `json:"scorer"`
	CreatedAt Time    `json:"created_at"`
}

// Scores lists all ratings of a job.
type Scores struct {
	Scores []Score `json:"scores"`
}
