package api

// Queue is a queue in the responses of GET /queues and GET /queues/{name}: its settings and counts. Its JSON
// always has every field.
type Queue struct {
	Name           string `json:"name"`
	Paused         bool   `json:"paused"`
	MaxConcurrency *int   `json:"max_concurrency"` // null = unlimited
	RateLimit      *int   `json:"rate_limit"`      // null = unlimited
	RateWindowMs   *int64 `json:"rate_window_ms"`
	CreatedAt      Time   `json:"created_at"`

	// Jobs in each state.
	Pending   int64 `json:"pending"`
	Active    int64 `json:"active"`
	Held      int64 `json:"held"`
	Completed int64 `json:"completed"`
	Dead      int64 `json:"dead"`
	Cancelled int64 `json:"cancelled"`
	Scheduled int64 `json:"scheduled"`
	Retrying  int64 `json:"retrying"`

	// Totals since the queue was created.
	Enqueued int64 `json:"enqueued"`
	Failed   int64 `json:"failed"` // failed attempts, expired leases included

	OldestPendingAt *Time   `json:"oldest_pending_at"` // creation time of the oldest pending job that no provider or budget delays; null = none
	Status          string  `json:"status"`            // active, paused, draining, drained or deleting
	RatePerMinute   float64 `json:"rate_per_minute"`   // jobs completed in the last minute, as the view knows it; see Throughput
	UniqueLocks     int64   `json:"unique_locks"`
	Provider        *string `json:"provider"`

	PriorityAgeingMs *int64 `json:"priority_ageing_ms"` // null = priorities do not age

	MaxLength *int64          `json:"max_length"` // pending, scheduled and retrying jobs; null = unlimited
	OnFull    string          `json:"on_full"`    // reject or drop_oldest
	Retention *QueueRetention `json:"retention"`  // null = the namespace's retention
	Defaults  *QueueDefaults  `json:"defaults"`   // null = the built-in defaults

	// Version is the version of the settings. Package client sets it from the ETag of the response. It is 0
	// in a list and in an eventual read.
	Version int64 `json:"-"`
}

// The values of Queue.Status.
const (
	QueueActive   = "active"
	QueuePaused   = "paused"
	QueueDraining = "draining" // being drained, and some jobs are still active
	QueueDrained  = "drained"  // being drained, and no job is active
	QueueDeleting = "deleting" // its jobs are being removed, and then the queue
)

// The values of Queue.OnFull.
const (
	OnFullReject     = "reject"      // an enqueue is refused with QUEUE_FULL
	OnFullDropOldest = "drop_oldest" // the oldest ready job of the least urgent priority (in the longest lane, if there are lanes) becomes dead; with too few ready jobs, as reject
)

// Forever is an unlimited retention.
const Forever = "forever"

// QueueRetention is the time for which settled jobs are kept, by their final state: a duration from 1ms to
// 87600h or "forever". For an absent field of a queue the namespace's retention applies, and for one of the
// namespace 168h.
type QueueRetention struct {
	Completed Duration `json:"completed,omitempty"`
	Dead      Duration `json:"dead,omitempty"`
	Cancelled Duration `json:"cancelled,omitempty"`
}

// QueueDefaults are the values of fields that an enqueue leaves out. Each field has the meaning and the
// bounds of the field of EnqueueRequest with its name. For an absent field the default of EnqueueRequest
// applies.
type QueueDefaults struct {
	Priority           Priority  `json:"priority,omitempty"`
	MaxRetries         *int      `json:"max_retries,omitempty"`
	RetryBackoff       string    `json:"retry_backoff,omitempty"`
	RetryBaseDelay     *Duration `json:"retry_base_delay,omitempty"`
	RetryMaxDelay      *Duration `json:"retry_max_delay,omitempty"`
	RetryJitterPercent *int      `json:"retry_jitter_percent,omitempty"` // 0 to 100
	ExpireAfter        Duration  `json:"expire_after,omitempty"`
}

// PutQueueRequest replaces all settings of a queue. An absent field gets its default.
type PutQueueRequest struct {
	Paused         *bool `json:"paused,omitempty"`          // default false
	MaxConcurrency *int  `json:"max_concurrency,omitempty"` // at most 1,000,000; 0 or absent = unlimited

	// RateLimit is the number of jobs that may start in any window, at most 10,000,000; 0 or absent =
	// unlimited. RateLimit and RateWindowMs (1,000 to 86,400,000) require each other.
	RateLimit    *int   `json:"rate_limit,omitempty"`
	RateWindowMs *int64 `json:"rate_window_ms,omitempty"`

	// PriorityAgeing is the age at which a job counts as one priority higher, at most 168h. Ageing is
	// gradual: at half that age the job counts as half a priority higher. "0s" or absent = never.
	PriorityAgeing Duration `json:"priority_ageing,omitempty"`

	MaxLength *int64          `json:"max_length,omitempty"` // pending, scheduled and retrying jobs, at most 10^9; 0 or absent = unlimited
	OnFull    string          `json:"on_full,omitempty"`    // reject (the default) or drop_oldest
	Retention *QueueRetention `json:"retention,omitempty"`
	Provider  string          `json:"provider,omitempty"` // provider for jobs without one of their own
	Defaults  *QueueDefaults  `json:"defaults,omitempty"`
}

// ThrottleRequest limits how many jobs of a queue may start in any window: Rate jobs in a Period ("1s" to
// "24h"), or in WindowMs. Exactly one of Period and WindowMs is given.
type ThrottleRequest struct {
	Rate     *int     `json:"rate"` // required; 1 to 10,000,000
	Period   Duration `json:"period,omitempty"`
	WindowMs *int64   `json:"window_ms,omitempty"`
}

// Cleared is the response of POST /queues/{name}/clear: 200 "cleared" if all jobs are removed, or 202
// "clearing" while the server continues.
type Cleared struct {
	Status  string `json:"status"`
	Removed uint64 `json:"removed"` // jobs removed so far
}
