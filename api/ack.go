package api

import "encoding/json"

// AckRequest completes a job, or ends an iteration of an agent's. Everything is optional; without LeaseToken the
// lease is proved by WorkerID, or by nothing where no earlier lease of the job
// expired. A result that does not match the job's schema fails the attempt: the
// answer is RESULT_MISMATCH, whose details say where (mismatches: path, reason) and
// what became of the job (status, attempt, attempts_remaining, next_attempt_at).
type AckRequest struct {
	Result     json.RawMessage `json:"result,omitempty"`
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"`
	Usage      *ReportedUsage  `json:"usage,omitempty"` // since the last report; added to the job's
	LeaseToken string          `json:"lease_token,omitempty"`
	WorkerID   string          `json:"worker_id,omitempty"`
	StepStatus string          `json:"step_status,omitempty"` // of a chain's step: continue (the default) or exit

	// AgentStatus says how an agent's iteration ended: AgentContinue, AgentHold or
	// AgentDone, the default. A job that was enqueued as any other may say so too.
	AgentStatus string          `json:"agent_status,omitempty"`
	HoldReason  string          `json:"hold_reason,omitempty"` // with AgentHold: what the person is to know
	Trace       json.RawMessage `json:"trace,omitempty"`       // kept with the iteration

	// ToolCalls are jobs to be made, whose outcomes the next iteration is given: it
	// begins when all of them have settled. They go with agent_status continue.
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// AckBatchRequest completes jobs, each on its own.
type AckBatchRequest struct {
	Acks []AckItem `json:"acks"`
}

// AckItem is one job of an AckBatchRequest.
type AckItem struct {
	JobID string `json:"job_id"`
	AckRequest
}

// AckResponse says that the job is completed. UsageRejected is why its usage report is
// kept aside; absent where it counts.
type AckResponse struct {
	Status        string `json:"status"`
	UsageRejected string `json:"usage_rejected,omitempty"`
}

// AckBatchResponse counts the items whose job is completed and names the others.
// UsageRejected are the completed jobs whose usage reports are kept aside.
type AckBatchResponse struct {
	Acked         int              `json:"acked"`
	Errors        []ItemError      `json:"errors,omitempty"`
	UsageRejected []UsageRejection `json:"usage_rejected,omitempty"`
}

// UsageRejection says why the usage report that came with a completed job is kept aside.
type UsageRejection struct {
	JobID  string `json:"job_id"`
	Reason string `json:"reason"`
}

// ItemError is why one item of a batch was refused.
type ItemError struct {
	JobID string `json:"job_id"`
	Code  Code   `json:"code"`
	Error string `json:"error"`
	// Details are those that a single request would get, where there are any:
	// RESULT_MISMATCH says where the result does not match, and what became of the job.
	Details map[string]any `json:"details,omitempty"`
}
