package api

// Queue is a queue's settings and counts, as GET /queues answers it. Every
// field is always present.
type Queue struct {
	Name           string `json:"name"`
	Paused         bool   `json:"paused"`
	MaxConcurrency *int   `json:"max_concurrency"` // null = unlimited
	RateLimit      *int   `json:"rate_limit"`      // null = unlimited
	RateWindowMs   *int64 `json:"rate_window_ms"`
	CreatedAt      Time   `json:"created_at"`

	// Jobs now in each state.
	Pending   int64 `json:"pending"`
	Active    int64 `json:"active"`
	Held      int64 `json:"held"`
	Completed int64 `json:"completed"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Scheduled int64 `json:"scheduled"`
	Retrying  int64 `json:"retrying"`

	// Totals since the queue exists.
	Enqueued int64 `json:"enqueued"`
	Failed   int64 `json:"failed"` // attempts, expired leases included

	OldestPendingAt *Time   `json:"oldest_pending_at"` // creation of the oldest pending job
	Status          string  `json:"status"`            // active or paused
	RatePerMinute   float64 `json:"rate_per_minute"`
	UniqueLocks     int64   `json:"unique_locks"`
	Provider        *string `json:"provider"`
}

// The words of Queue.Status.
const (
	QueueActive = "active"
	QueuePaused = "paused"
)

// PutQueueRequest is every setting of a queue: what is absent gets its default.
type PutQueueRequest struct {
	Paused         *bool `json:"paused,omitempty"`          // default false
	MaxConcurrency *int  `json:"max_concurrency,omitempty"` // 0 or absent = unlimited
}
