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

	OldestPendingAt *Time   `json:"oldest_pending_at"` // creation of the oldest pending job that no provider or budget keeps
	Status          string  `json:"status"`            // active, paused, draining, drained or deleting
	RatePerMinute   float64 `json:"rate_per_minute"`   // jobs completed in the last minute that the view has read, see Throughput
	UniqueLocks     int64   `json:"unique_locks"`
	Provider        *string `json:"provider"`

	PriorityAgeingMs *int64 `json:"priority_ageing_ms"` // null = priorities do not age

	MaxLength *int64          `json:"max_length"` // jobs that wait; null = unlimited
	OnFull    string          `json:"on_full"`    // reject or drop_oldest
	Retention *QueueRetention `json:"retention"`  // null = the namespace's
	Defaults  *QueueDefaults  `json:"defaults"`   // null = the namespace's

	// Version of the settings is for the client, which reads it off the answer's ETag; 0 in
	// a list, and in an eventual read.
	Version int64 `json:"-"`
}

// The words of Queue.Status.
const (
	QueueActive   = "active"
	QueuePaused   = "paused"
	QueueDraining = "draining" // paused, and jobs are active still
	QueueDrained  = "drained"  // paused, and the last of them has ended
	QueueDeleting = "deleting" // its jobs are being removed, then it
)

// The words of Queue.OnFull.
const (
	OnFullReject     = "reject"      // an enqueue is refused with QUEUE_FULL
	OnFullDropOldest = "drop_oldest" // the oldest pending job is dead
)

// Forever is a retention that does not end.
const Forever = "forever"

// QueueRetention is how long settled jobs are kept, by how they settled: a
// duration or "forever"; absent, the namespace's.
type QueueRetention struct {
	Completed Duration `json:"completed,omitempty"`
	Dead      Duration `json:"dead,omitempty"`
	Cancelled Duration `json:"cancelled,omitempty"`
}

// QueueDefaults is what jobs get that say nothing themselves. Each field means what
// it means in an enqueue; an absent one leaves the namespace's default.
type QueueDefaults struct {
	Priority           Priority  `json:"priority,omitempty"`
	MaxRetries         *int      `json:"max_retries,omitempty"`
	RetryBackoff       string    `json:"retry_backoff,omitempty"`
	RetryBaseDelay     *Duration `json:"retry_base_delay,omitempty"`
	RetryMaxDelay      *Duration `json:"retry_max_delay,omitempty"`
	RetryJitterPercent *int      `json:"retry_jitter_percent,omitempty"` // 0 to 100
	ExpireAfter        Duration  `json:"expire_after,omitempty"`
}

// PutQueueRequest is every setting of a queue: what is absent gets its default.
type PutQueueRequest struct {
	Paused         *bool `json:"paused,omitempty"`          // default false
	MaxConcurrency *int  `json:"max_concurrency,omitempty"` // 0 or absent = unlimited

	// RateLimit is how many jobs may be let go in any window; 0 or absent = unlimited.
	// With it comes the window: 1 s to 24 h.
	RateLimit    *int   `json:"rate_limit,omitempty"`
	RateWindowMs *int64 `json:"rate_window_ms,omitempty"`

	// PriorityAgeing is how long a job waits, from its creation on, until it counts as
	// one priority higher; "0s" or absent = it never does.
	PriorityAgeing Duration `json:"priority_ageing,omitempty"`

	MaxLength *int64          `json:"max_length,omitempty"` // jobs that wait; 0 or absent = unlimited
	OnFull    string          `json:"on_full,omitempty"`    // default reject
	Retention *QueueRetention `json:"retention,omitempty"`
	Provider  string          `json:"provider,omitempty"` // whose limits its jobs count against that name none
	Defaults  *QueueDefaults  `json:"defaults,omitempty"`
}

// ThrottleRequest limits how many jobs of a queue are let go in any window: Rate in
// Period ("1s" to "24h"), or in WindowMs.
type ThrottleRequest struct {
	Rate     *int     `json:"rate"` // 1 or more
	Period   Duration `json:"period,omitempty"`
	WindowMs *int64   `json:"window_ms,omitempty"`
}

// Cleared answers POST /queues/{name}/clear: 200 "cleared", or 202 "clearing" where
// the server goes on with it.
type Cleared struct {
	Status  string `json:"status"`
	Removed uint64 `json:"removed"` // jobs, so far
}
