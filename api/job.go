package api

import (
	"encoding/json"

	"github.com/corvo/corvo/billing/money"
)

// Job is the document of one job, as GET /jobs/{id} and a search answer it.
// Every field is always present: lists and objects of names are empty, never
// null; what a job does not have is null.
type Job struct {
	ID       string          `json:"id"`
	Queue    string          `json:"queue"`
	State    string          `json:"state"` // scheduled, pending, active, retrying, held, completed, dead, cancelled
	Payload  json.RawMessage `json:"payload"`
	Priority int             `json:"priority"` // 0 critical, 1 high, 2 normal

	Attempt          int    `json:"attempt"`     // attempts started and counted
	MaxRetries       int    `json:"max_retries"` // the most attempts, the first included
	RetryBackoff     string `json:"retry_backoff"`
	RetryBaseDelayMs int64  `json:"retry_base_delay_ms"`
	RetryMaxDelayMs  int64  `json:"retry_max_delay_ms"`

	UniqueKey *string `json:"unique_key"`
	BatchID   *string `json:"batch_id"`
	WorkerID  *string `json:"worker_id"` // who holds the job, or held it last
	Hostname  *string `json:"hostname"`  // that worker's, where it gave one
	Tags      Strings `json:"tags"`
	Headers   Strings `json:"headers"`

	Progress   json.RawMessage `json:"progress"`
	Checkpoint json.RawMessage `json:"checkpoint"`
	Result     json.RawMessage `json:"result"`

	LeaseExpiresAt *Time `json:"lease_expires_at"` // while active
	ScheduledAt    *Time `json:"scheduled_at"`     // when due, or last due; a retrying job's next attempt
	ExpireAt       *Time `json:"expire_at"`

	ParentID    *string         `json:"parent_id"`
	ChainID     *string         `json:"chain_id"`
	ChainStep   *int            `json:"chain_step"`
	ChainConfig json.RawMessage `json:"chain_config"`

	BlockedBy        int     `json:"blocked_by"`        // jobs it depends on that are not known to have succeeded
	DependencyPolicy *string `json:"dependency_policy"` // fail, hold or ignore while there are any

	CreatedAt   Time  `json:"created_at"`
	StartedAt   *Time `json:"started_at"` // start of the latest attempt
	CompletedAt *Time `json:"completed_at"`
	FailedAt    *Time `json:"failed_at"`

	Errors     []JobError `json:"errors"` // oldest first
	Agent      *JobAgent  `json:"agent"`  // null: it does not run in iterations
	HoldReason *string    `json:"hold_reason"`
	Hold       *JobHold   `json:"hold"`     // while held: what holds it
	Usage      *Usage     `json:"usage"`    // the sum over all attempts; null when none was reported
	CostUSD    money.Nano `json:"cost_usd"` // Usage's, 0 when none was reported
	LastError  *string    `json:"last_error"`
	Worker     *JobWorker `json:"worker"` // as WorkerID and Hostname

	UniquePeriod *int64       `json:"unique_period"` // seconds
	ExpireAfter  *Duration    `json:"expire_after"`
	Attempts     []JobAttempt `json:"attempts"` // oldest first

	ScheduleID         *string `json:"schedule_id"` // of the schedule that made it
	Cancelling         bool    `json:"cancelling"`  // active, and its worker is being told to let go of it
	CancelledAt        *Time   `json:"cancelled_at"`
	RetryJitterPercent int     `json:"retry_jitter_percent"` // how much of a retry's delay varies; 0 is none

	FairnessKey     *string         `json:"fairness_key"`
	FairnessWeight  *int            `json:"fairness_weight"` // null: as its key had before
	Provider        *string         `json:"provider"`        // whose limits it counts against; null: its queue's
	Model           *string         `json:"model"`           // it is expected to use
	CostEstimateUSD *money.Nano     `json:"cost_estimate_usd"`
	ReplayOf        *string         `json:"replay_of"`     // the job whose iterations it goes on from
	WaitingFor      *string         `json:"waiting_for"`   // while pending: "provider:NAME" or "budget:NAME", which keeps it from being fetched
	ResultSchema    json.RawMessage `json:"result_schema"` // what its result has to match
}

// JobAgent is how far a job that runs in iterations is, and what bounds it; null is
// no bound.
type JobAgent struct {
	MaxIterations    *int        `json:"max_iterations"`
	MaxCostUSD       *money.Nano `json:"max_cost_usd"`
	IterationTimeout *Duration   `json:"iteration_timeout"`
	Iteration        int         `json:"iteration"`      // iterations that have ended
	TotalCostUSD     money.Nano  `json:"total_cost_usd"` // of them, those of the job it goes on from included
}

// JobHold is what holds a job. Name is that of the budget or the policy that does.
type JobHold struct {
	By   string  `json:"by"` // request, agent, max_iterations, max_cost, budget, policy or dependency
	Name *string `json:"name"`
}

// JobError is one failed attempt of a job. ID is unique among all errors.
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

// What came of an attempt.
const (
	OutcomeCompleted    = "completed"
	OutcomeFailed       = "failed"        // its worker reported an error
	OutcomeLeaseExpired = "lease_expired" // its worker was not heard of in time
	OutcomeExpired      = "expired"       // the job's time was over
	OutcomeCancelled    = "cancelled"
	OutcomeRejected     = "rejected" // a person said no
	OutcomeBlocked      = "blocked"  // a job it depends on did not succeed
	OutcomeDropped      = "dropped"  // its queue was full
)

// JobAttempt is what is known of one attempt. A running one has no end and no
// outcome; one that the job did not get, because it was to end while it waited, has
// no worker and no start.
type JobAttempt struct {
	Attempt   int     `json:"attempt"`
	WorkerID  *string `json:"worker_id"`
	StartedAt *Time   `json:"started_at"`
	EndedAt   *Time   `json:"ended_at"`
	Outcome   *string `json:"outcome"`
}
