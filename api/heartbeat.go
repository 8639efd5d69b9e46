package api

import "encoding/json"

// HeartbeatRequest renews the leases of jobs and may report about them.
type HeartbeatRequest struct {
	// Jobs has a report for each job, by the job's id, for at most 1,000 jobs. A job with a nil report counts
	// as absent.
	Jobs map[string]*HeartbeatJob `json:"jobs"`
	// ReportID identifies the request, so that a repeat counts its usage only once, unless another request
	// has reported usage of the job in between. The client chooses up to 64 bytes. Without a ReportID a
	// repeat counts again.
	ReportID string `json:"report_id,omitempty"`
	// WorkerID, Concurrency and Draining describe the worker for GET /workers. Concurrency is the number of
	// jobs that the worker runs at once, 0 = unchanged. Draining means that it fetches no more jobs.
	WorkerID    string `json:"worker_id,omitempty"`
	Concurrency int    `json:"concurrency,omitempty"`
	Draining    bool   `json:"draining,omitempty"`
}

// HeartbeatJob is the report about one running job. Every field is optional: {} renews the lease by its
// duration in the fetch. Usage is the usage since the last report, because the server adds the reports up.
type HeartbeatJob struct {
	Progress      json.RawMessage `json:"progress,omitempty"`   // shown to people; at most 4 KiB
	Checkpoint    json.RawMessage `json:"checkpoint,omitempty"` // for the next attempt; at most 1 MiB
	Usage         *ReportedUsage  `json:"usage,omitempty"`
	LeaseToken    string          `json:"lease_token,omitempty"`
	WorkerID      string          `json:"worker_id,omitempty"`
	LeaseDuration int             `json:"lease_duration,omitempty"` // seconds, at most 86400; 0 = as in the fetch
}

// HeartbeatResponse has a status for each job of the request. Each job is also in one of the three lists.
type HeartbeatResponse struct {
	Jobs     map[string]HeartbeatStatus `json:"jobs"`
	Acked    []string                   `json:"acked"`    // renewed
	Unknown  []string                   `json:"unknown"`  // no such job; the status is cancel
	Canceled []string                   `json:"canceled"` // no longer leased, or being cancelled; the status is cancel
}

// HeartbeatStatus is ok or cancel. With cancel the worker must stop working on the job. BudgetExceeded means
// that the job has cost more than its budgets or its agent's max_cost_usd allow. All further cost is overrun,
// so the worker should finish. UsageRejected is the reason why the usage report was set aside; it is absent
// if the report counts.
type HeartbeatStatus struct {
	Status         string `json:"status"`
	BudgetExceeded bool   `json:"budget_exceeded,omitempty"`
	UsageRejected  string `json:"usage_rejected,omitempty"`
}
