package api

import "encoding/json"

// AckRequest acks a job: the ack completes the job, or ends an iteration of an agent's job. Every field is
// optional. LeaseToken names the worker's lease; without it, WorkerID does. If the lease that the ack names
// is over, the error is LEASE_LOST. An ack that names no lease is accepted while the job is active and none
// of its leases has expired. After an expiry the error is LEASE_LOST. If no lease has expired and the job is
// not active, the error is STATE_CONFLICT. A repeat with the token of the last attempt's lease succeeds and
// changes nothing.
//
// A result that does not match the job's schema fails the attempt with RESULT_MISMATCH. The details of that
// error list the mismatches (path, reason) and the new state of the job (status, attempt, attempts_remaining,
// next_attempt_at).
type AckRequest struct {
	Result     json.RawMessage `json:"result,omitempty"`     // at most 1 MiB (PAYLOAD_TOO_LARGE)
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"` // at most 1 MiB; absent = unchanged
	Usage      *ReportedUsage  `json:"usage,omitempty"`      // since the last report; added to the job's usage
	LeaseToken string          `json:"lease_token,omitempty"`
	WorkerID   string          `json:"worker_id,omitempty"`
	StepStatus string          `json:"step_status,omitempty"` // of a chain's step: continue (the default) or exit, which is refused with agent_status continue or hold

	// AgentStatus says how an agent's iteration ended: AgentContinue, AgentHold or AgentDone (the default).
	// The ack of a job that was enqueued without an agent may have it too.
	AgentStatus string          `json:"agent_status,omitempty"`
	HoldReason  string          `json:"hold_reason,omitempty"` // what the person must know, at most 1 KiB; requires agent_status hold
	Trace       json.RawMessage `json:"trace,omitempty"`       // stored with the iteration; at most 256 KiB

	// ToolCalls creates up to 100 jobs. The next iteration begins when all of them have settled, and receives
	// their outcomes. ToolCalls requires agent_status continue.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// AckBatchRequest acks up to 1,000 jobs. Each ack succeeds or fails on its own.
type AckBatchRequest struct {
	Acks []AckItem `json:"acks"`
}

// AckItem is one job of an AckBatchRequest.
type AckItem struct {
	JobID string `json:"job_id"`
	AckRequest
}

// AckResponse confirms an accepted ack. UsageRejected is the reason why the server set the ack's usage report
// aside; it is absent if the report counts.
type AckResponse struct {
	Status        string `json:"status"`
	UsageRejected string `json:"usage_rejected,omitempty"`
}

// AckBatchResponse counts the accepted acks and lists the errors of the refused ones. UsageRejected lists the
// accepted acks whose usage reports the server set aside.
type AckBatchResponse struct {
	Acked         int              `json:"acked"`
	Errors        []ItemError      `json:"errors,omitempty"`
	UsageRejected []UsageRejection `json:"usage_rejected,omitempty"`
}

// UsageRejection is the reason why the server set aside the usage report of an accepted ack.
type UsageRejection struct {
	JobID  string `json:"job_id"`
	Reason string `json:"reason"`
}

// ItemError is the error of one item of a batch request.
type ItemError struct {
	JobID string `json:"job_id"`
	Code  Code   `json:"code"`
	Error string `json:"error"`
	// Details are set only with RESULT_MISMATCH: they list the mismatches and the new state of the job, as
	// AckRequest says.
	Details map[string]any `json:"details,omitempty"`
}
