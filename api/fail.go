package api

// WorkerShutdown is the error of an unfinished job that a stopping worker fails. The attempt does not count.
// The job becomes pending at once, or cancelled if its cancellation was requested.
const WorkerShutdown = "worker_shutdown"

// FailRequest ends an attempt without success. It proves the lease like an AckRequest. Every field is
// optional.
type FailRequest struct {
	Error      string         `json:"error,omitempty"`     // at most 8 KiB
	Backtrace  string         `json:"backtrace,omitempty"` // at most 64 KiB
	Usage      *ReportedUsage `json:"usage,omitempty"`
	LeaseToken string         `json:"lease_token,omitempty"`
	WorkerID   string         `json:"worker_id,omitempty"`
}

// FailResponse is the new state of the job. UsageRejected is the reason why the server set the request's
// usage report aside; it is absent if the report counts.
type FailResponse struct {
	Status            string `json:"status"` // retrying (even if the job is pending at once, as after WorkerShutdown), dead or cancelled
	Attempt           int    `json:"attempt"`
	NextAttemptAt     Time   `json:"next_attempt_at,omitempty"`
	AttemptsRemaining int    `json:"attempts_remaining"`
	UsageRejected     string `json:"usage_rejected,omitempty"`
}
