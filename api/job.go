package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// Job is a job in the responses of GET /jobs/{id} and of searches. Its JSON always has every field. An empty
// list or object is never null, and an absent value is null.
type Job struct {
	ID       string          `json:"id"`
	Queue    string          `json:"queue"`
	State    string          `json:"state"` // scheduled, pending, active, retrying, held, completed, dead, cancelled
	Payload  json.RawMessage `json:"payload"`
	Priority int             `json:"priority"` // 0 critical, 1 high, 2 normal

	Attempt          int    `json:"attempt"`     // number of started attempts; an attempt whose stopping worker gave the job back does not count
	MaxRetries       int    `json:"max_retries"` // the largest number of attempts, the first one included
	RetryBackoff     string `json:"retry_backoff"`
	RetryBaseDelayMs int64  `json:"retry_base_delay_ms"`
	RetryMaxDelayMs  int64  `json:"retry_max_delay_ms"`

	UniqueKey *string `json:"unique_key"`
	BatchID   *string `json:"batch_id"`
	WorkerID  *string `json:"worker_id"` // the worker that holds the job, or held it last
	Hostname  *string `json:"hostname"`  // of that worker, if it gave one
	Tags      Strings `json:"tags"`
	Headers   Strings `json:"headers"`

	Progress   json.RawMessage `json:"progress"`
	Checkpoint json.RawMessage `json:"checkpoint"`
	Result     json.RawMessage `json:"result"`

	LeaseExpiresAt *Time `json:"lease_expires_at"` // while active
	ScheduledAt    *Time `json:"scheduled_at"`     // due time, past or future; for a retrying job, of the next attempt
	ExpireAt       *Time `json:"expire_at"`

	ParentID    *string         `json:"parent_id"`
	ChainID     *string         `json:"chain_id"`
	ChainStep   *int            `json:"chain_step"` // from 0
	ChainConfig json.RawMessage `json:"chain_config"`

	BlockedBy        int     `json:"blocked_by"`        // dependencies that are not resolved yet
	DependencyPolicy *string `json:"dependency_policy"` // fail, hold or ignore; null if blocked_by is 0

	CreatedAt   Time  `json:"created_at"`
	StartedAt   *Time `json:"started_at"` // of the latest attempt
	CompletedAt *Time `json:"completed_at"`
	FailedAt    *Time `json:"failed_at"`

	Errors     []JobError `json:"errors"` // oldest first; after 100, each new one replaces the last
	Agent      *JobAgent  `json:"agent"`  // null if the job does not run in iterations
	HoldReason *string    `json:"hold_reason"`
	Hold       *JobHold   `json:"hold"`     // the reason while it is held
	Usage      *Usage     `json:"usage"`    // sum of all attempts; null if none was reported
	CostUSD    money.Nano `json:"cost_usd"` // the cost in Usage; 0 if none was reported
	LastError  *string    `json:"last_error"`
	Worker     *JobWorker `json:"worker"` // WorkerID and Hostname

	UniquePeriod *int64       `json:"unique_period"` // seconds
	ExpireAfter  *Duration    `json:"expire_after"`
	Attempts     []JobAttempt `json:"attempts"` // oldest first

	ScheduleID         *string `json:"schedule_id"` // of the schedule that created it
	Cancelling         bool    `json:"cancelling"`  // active; its worker gets cancel at the next heartbeat
	CancelledAt        *Time   `json:"cancelled_at"`
	RetryJitterPercent int     `json:"retry_jitter_percent"` // random part of a retry delay

	FairnessKey     *string         `json:"fairness_key"`
	FairnessWeight  *int            `json:"fairness_weight"` // null = the enqueue gave none
	Provider        *string         `json:"provider"`        // the provider whose limits apply; null = the queue's provider
	Model           *string         `json:"model"`           // the model that it is expected to use
	CostEstimateUSD *money.Nano     `json:"cost_estimate_usd"`
	ReplayOf        *string         `json:"replay_of"`     // the job whose iterations it continues
	WaitingFor      *string         `json:"waiting_for"`   // while pending: "provider:NAME" or "budget:NAME" if that delays it
	ResultSchema    json.RawMessage `json:"result_schema"` // JSON Schema of the result
}

// JobAgent is the progress of an agent's job, and its limits, each null if there is none.
type JobAgent struct {
	MaxIterations    *int        `json:"max_iterations"`
	MaxCostUSD       *money.Nano `json:"max_cost_usd"`
	IterationTimeout *Duration   `json:"iteration_timeout"`
	Iteration        int         `json:"iteration"`      // number of ended iterations
	TotalCostUSD     money.Nano  `json:"total_cost_usd"` // as counted against max_cost_usd: of all iterations since the last retry, and of the job that it continues
}

// JobHold is the reason of a hold. Name is the budget, the policy, the model without a price (as model/NAME)
// or the id of the dependency; null for another reason.
type JobHold struct {
	By   string  `json:"by"` // request, agent, max_iterations, max_cost, budget, policy or dependency
	Name *string `json:"name"`
}

// JobError is one failed attempt of a job, or, with Attempt 0, the end of a job that waited. ID is unique
// among the errors of a shard.
type JobError struct {
	ID        int64   `json:"id"`
	JobID     string  `json:"job_id"`
	Attempt   int     `json:"attempt"`
	Error     string  `json:"error"`
	Backtrace *string `json:"backtrace"`
	CreatedAt Time    `json:"created_at"`
}

// JobWorker is the worker that holds a job, or held it last.
type JobWorker struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname"`
}

// The outcomes of an attempt.
const (
	OutcomeCompleted    = "completed"
	OutcomeFailed       = "failed"        // its worker reported an error, or a result that does not match the schema
	OutcomeLeaseExpired = "lease_expired" // the lease expired
	OutcomeExpired      = "expired"       // the lifetime of the job was over
	OutcomeCancelled    = "cancelled"
	OutcomeRejected     = "rejected" // a person or a budget rejected the job
	OutcomeBlocked      = "blocked"  // a dependency did not succeed
	OutcomeDropped      = "dropped"  // the queue was full
)

// JobAttempt is one attempt of a job. A running attempt has no end and no outcome. If the job ended while it
// waited, the entry for that end has Attempt 0, no worker and no start.
type JobAttempt struct {
	Attempt   int     `json:"attempt"`
	WorkerID  *string `json:"worker_id"`
	StartedAt *Time   `json:"started_at"`
	EndedAt   *Time   `json:"ended_at"`
	Outcome   *string `json:"outcome"`
}
