package api

// WorkerShutdown is the error of a worker that stops before its job is done. The
// job runs again at once, without an attempt being counted.
const WorkerShutdown = "worker_shutdown"

// FailRequest ends an attempt without success; see AckRequest for the proof of
// the lease.
type FailRequest struct {
	Error      string         `json:"error,omitempty"`
	Backtrace  string         `json:"backtrace,omitempty"`
	Usage      *ReportedUsage `json:"usage,omitempty"`
	LeaseToken string         `json:"lease_token,omitempty"`
	WorkerID   string         `json:"worker_id,omitempty"`
}

// FailResponse says what becomes of the job. UsageRejected is why its usage report is
// kept aside; absent where it counts.
type FailResponse struct {
	Status            string `json:"status"` // retrying, dead or cancelled
	Attempt           int    `json:"attempt"`
	NextAttemptAt     Time   `json:"next_attempt_at,omitempty"`
	AttemptsRemaining int    `json:"attempts_remaining"`
	UsageRejected     string `json:"usage_rejected,omitempty"`
}
