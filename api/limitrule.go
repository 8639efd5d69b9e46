package api

// LimitRule limits what the jobs of a queue with one fairness key may have. One without
// a key limits the queue, and is the queue's own settings.
type LimitRule struct {
	ID             string `json:"id"` // queue/key, or the queue's name
	Queue          string `json:"queue"`
	Key            string `json:"key"`             // "*": each key that has no rule of its own; empty: the whole queue
	MaxConcurrency *int   `json:"max_concurrency"` // null = unlimited
	RateLimit      *int   `json:"rate_limit"`      // null = unlimited
	RateWindowMs   *int64 `json:"rate_window_ms"`
	Paused         bool   `json:"paused"`
	CreatedAt      Time   `json:"created_at"`

	// Version is for the client, which reads it off the answer's ETag; 0 in a list. That of
	// a whole queue's rule is the queue's.
	Version int64 `json:"-"`
}

// LimitRuleRequest declares a limit rule; what is absent is no limit.
type LimitRuleRequest struct {
	Queue          string   `json:"queue"`
	Key            string   `json:"key,omitempty"`             // "*": each key without a rule of its own; absent: the whole queue
	MaxConcurrency *int     `json:"max_concurrency,omitempty"` // jobs that are active at once
	RateLimit      *int     `json:"rate_limit,omitempty"`      // jobs let go in any window
	RateWindow     Duration `json:"rate_window,omitempty"`     // "1s" to "24h"; goes with RateLimit
	Paused         *bool    `json:"paused,omitempty"`          // none is let go; absent: no, and of a whole queue as it is
}
