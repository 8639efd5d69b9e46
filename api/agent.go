package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// Agent has a job run in iterations, within bounds that the server keeps: a job that
// comes to one is held until a person approves it. What is left out is no bound.
type Agent struct {
	MaxIterations    int        `json:"max_iterations,omitempty"`
	MaxCostUSD       money.Nano `json:"max_cost_usd,omitempty"`      // of all attempts together
	IterationTimeout Duration   `json:"iteration_timeout,omitempty"` // how long each attempt at an iteration may run, heartbeats or not
}

// FetchedAgent is what a worker is told of the iteration that begins with its fetch.
type FetchedAgent struct {
	MaxIterations    int        `json:"max_iterations"` // 0 = no bound, as of all three
	MaxCostUSD       money.Nano `json:"max_cost_usd"`
	IterationTimeout Duration   `json:"iteration_timeout"` // "0s" is none
	Iteration        int        `json:"iteration"`         // that begins: 1 is the first
	TotalCostUSD     money.Nano `json:"total_cost_usd"`    // of the job so far, as it counts against max_cost_usd
}

// The values of AckRequest.AgentStatus.
const (
	AgentContinue = "continue" // the job is pending again, for its next iteration
	AgentHold     = "hold"     // it is held until a person says whether it goes on
	AgentDone     = "done"     // it is completed; so it is where nothing is said
)

// Iteration is one round of an agent's job that has ended.
type Iteration struct {
	Iteration  int             `json:"iteration"`
	Status     string          `json:"status"` // continue, hold or done
	HoldReason *string         `json:"hold_reason"`
	Checkpoint json.RawMessage `json:"checkpoint"` // that it left; null where it left the one before as it was
	Trace      json.RawMessage `json:"trace"`
	Result     json.RawMessage `json:"result"`
	Usage      *Usage          `json:"usage"` // of this iteration alone, failed attempts at it included
	CostUSD    money.Nano      `json:"cost_usd"`
	Attempt    int             `json:"attempt"` // that ended it
	WorkerID   *string         `json:"worker_id"`
	StartedAt  Time            `json:"started_at"` // of that attempt
	CreatedAt  Time            `json:"created_at"` // when it ended
}

// Iterations are those of a job, oldest first. Where HasMore, ask again with after= the
// last one's number.
type Iterations struct {
	Iterations []Iteration `json:"iterations"`
	HasMore    bool        `json:"has_more"`
}

// ReplayRequest names the iteration that a new job does again.
type ReplayRequest struct {
	From int `json:"from"` // 1 is the first
}

// ScoreRequest is a judgement of a job: of each dimension a scorer has one, the latest.
type ScoreRequest struct {
	Dimension string   `json:"dimension"`
	Value     *float64 `json:"value"`
	Scorer    string   `json:"scorer,omitempty"`
}

// Score is a judgement of a job.
type Score struct {
	Dimension string  `json:"dimension"`
	Value     float64 `json:"value"`
	Scorer    string  `json:"scorer"`
	CreatedAt Time    `json:"created_at"`
}

// Scores are all judgements of a job.
type Scores struct {
	Scores []Score `json:"scores"`
}
