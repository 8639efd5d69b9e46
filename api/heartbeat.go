package api

import "encoding/json"

// HeartbeatRequest renews the leases of the jobs it names, by id.
type HeartbeatRequest struct {
	Jobs map[string]HeartbeatJob `json:"jobs"`
	// ReportID tells a repeat of the request from the next one: the usage in requests
	// that have the same is counted once, if no other heartbeat of the job lies between.
	// Up to 64 bytes that the client makes up; without it a repeat counts again.
	ReportID string `json:"report_id,omitempty"`
	// WorkerID is the worker that Concurrency and Draining are about, for GET /workers.
	// Concurrency is how many jobs it runs at once, 0 = as before; Draining says that it
	// takes no more of them.
	WorkerID    string `json:"worker_id,omitempty"`
	Concurrency int    `json:"concurrency,omitempty"`
	Draining    bool   `json:"draining,omitempty"`
}

// HeartbeatJob is what a worker says of one running job. Everything is
// optional: {} renews the lease by the length the fetch asked for. Usage is what
// was used since the last report; the reports of a job are summed.
type HeartbeatJob struct {
	Progress      json.RawMessage `json:"progress,omitempty"`
	Checkpoint    json.RawMessage `json:"checkpoint,omitempty"`
	Usage         *ReportedUsage  `json:"usage,omitempty"`
	LeaseToken    string          `json:"lease_token,omitempty"`
	WorkerID      string          `json:"worker_id,omitempty"`
	LeaseDuration int             `json:"lease_duration,omitempty"` // seconds
}

// HeartbeatResponse has a status for every job that was named, and names each
// once more in one of three lists.
type HeartbeatResponse struct {
	Jobs     map[string]HeartbeatStatus `json:"jobs"`
	Acked    []string                   `json:"acked"`    // renewed
	Unknown  []string                   `json:"unknown"`  // no such job; its status is cancel
	Canceled []string                   `json:"canceled"` // no longer held, or being cancelled; its status is cancel
}

// HeartbeatStatus is ok, or cancel: stop working on the job. BudgetExceeded says that
// the job has cost more than its budgets have room for: what it costs from now on is
// overrun, and its worker should come to an end. UsageRejected is why its usage report is
// kept aside; absent where it counts.
type HeartbeatStatus struct {
	Status         string `json:"status"`
	BudgetExceeded bool   `json:"budget_exceeded,omitempty"`
	UsageRejected  string `json:"usage_rejected,omitempty"`
}
