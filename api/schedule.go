package api

import "encoding/json"

// ScheduleRequest declares a schedule. Name, Queue and Cron are required. An absent field of the others gets
// its default, also when the request replaces a schedule.
type ScheduleRequest struct {
	Name      string          `json:"name"` // unique in the namespace, at most 128 bytes
	Queue     string          `json:"queue"`
	Cron      string          `json:"cron"`                 // five fields, or six with seconds first, or a word such as @hourly; else INVALID_CRON
	Timezone  string          `json:"timezone,omitempty"`   // IANA time zone; default UTC
	Payload   json.RawMessage `json:"payload,omitempty"`    // of its jobs: any JSON; default {}
	UniqueKey string          `json:"unique_key,omitempty"` // of its jobs: a run creates no job while another job of the queue holds the key

	MaxRetries *int     `json:"max_retries,omitempty"` // the largest number of attempts, the first one included; 1 to 1000, default 3
	Priority   Priority `json:"priority,omitempty"`    // default normal
	Tags       Strings  `json:"tags,omitempty"`
	Headers    Strings  `json:"headers,omitempty"`

	FairnessKey    string `json:"fairness_key,omitempty"` // of its jobs, as in EnqueueRequest
	FairnessWeight int    `json:"fairness_weight,omitempty"`

	Missed string   `json:"missed,omitempty"` // what to do with runs that were missed while no leader was up: skip, once (the default) or all
	Jitter Duration `json:"jitter,omitempty"` // longest random delay of a run, at most 1h; default none
	Paused *bool    `json:"paused,omitempty"` // default false
}

// The values of a schedule's Missed.
const (
	MissedSkip = "skip" // no missed run
	MissedOnce = "once" // one run for all missed ones
	MissedAll  = "all"  // each missed run, at most the newest thousand
)

// Schedule is the response of GET /schedules/{id}. Its JSON always has every field.
type Schedule struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Queue      string          `json:"queue"`
	Cron       string          `json:"cron"`
	Timezone   string          `json:"timezone"`
	Payload    json.RawMessage `json:"payload"`
	UniqueKey  *string         `json:"unique_key"`
	MaxRetries int             `json:"max_retries"`
	Priority   int             `json:"priority"` // 0 critical, 1 high, 2 normal
	Tags       Strings         `json:"tags"`
	Headers    Strings         `json:"headers"`

	FairnessKey    *string `json:"fairness_key"`
	FairnessWeight *int    `json:"fairness_weight"` // null = the schedule gives none

	Missed    string   `json:"missed"`
	Jitter    Duration `json:"jitter"`
	Paused    bool     `json:"paused"`
	LastRun   *Time    `json:"last_run"` // time of the last scheduled run
	NextRun   *Time    `json:"next_run"` // null while paused
	CreatedAt Time     `json:"created_at"`

	// Version is set by package client from the ETag of the response; 0 in a list.
	Version int64 `json:"-"`
}

// ScheduleRunResponse is the response of POST /schedules/{id}/run.
type ScheduleRunResponse struct {
	Status string `json:"status"` // ok
	JobID  string `json:"job_id"`
}
