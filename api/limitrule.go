package api

// LimitRule limits the jobs of a queue that have one fairness key. A rule without a key limits the whole
// queue and is part of the queue's settings.
type LimitRule struct {
	ID             string `json:"id"` // queue/key, or the name of the queue
	Queue          string `json:"queue"`
	Key            string `json:"key"`             // "*" = each key without a rule of its own; "" = the whole queue
	MaxConcurrency *int   `json:"max_concurrency"` // null = unlimited
	RateLimit      *int   `json:"rate_limit"`      // null = unlimited
	RateWindowMs   *int64 `json:"rate_window_ms"`
	Paused         bool   `json:"paused"`
	CreatedAt      Time   `json:"created_at"`

	// Version is set by package client from the ETag of the response; 0 in a list. The version of a whole
	// queue's rule is the version of the queue.
	Version int64 `json:"-"`
}

// LimitRuleRequest declares a limit rule. An absent limit, or 0, means no limit.
type LimitRuleRequest struct {
	Queue          string   `json:"queue"`
	Key            string   `json:"key,omitempty"`             // "*" = each key without a rule of its own; absent = the whole queue
	MaxConcurrency *int     `json:"max_concurrency,omitempty"` // active jobs at a time, at most 1,000,000
	RateLimit      *int     `json:"rate_limit,omitempty"`      // jobs started in any window, at most 10,000,000; requires RateWindow
	RateWindow     Duration `json:"rate_window,omitempty"`     // "1s" to "24h"; requires RateLimit
	Paused         *bool    `json:"paused,omitempty"`          // no job starts; absent = false or, for a whole queue, unchanged
}
