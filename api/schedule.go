package api

import "encoding/json"

// ScheduleRequest describes a schedule: what is absent gets its default, also where
// it replaces one.
type ScheduleRequest struct {
	Name      string          `json:"name"` // unique in the namespace
	Queue     string          `json:"queue"`
	Cron      string          `json:"cron"`               // five fields, six with the second first, or @hourly and its like
	Timezone  string          `json:"timezone,omitempty"` // of the IANA database; default UTC
	Payload   json.RawMessage `json:"payload,omitempty"`  // of its jobs: any JSON; absent is {}
	UniqueKey string          `json:"unique_key,omitempty"`

	MaxRetries *int     `json:"max_retries,omitempty"` // the most attempts, the first included; default 3
	Priority   Priority `json:"priority,omitempty"`    // default normal
	Tags       Strings  `json:"tags,omitempty"`
	Headers    Strings  `json:"headers,omitempty"`

	FairnessKey    string `json:"fairness_key,omitempty"` // of its jobs, as enqueue's
	FairnessWeight int    `json:"fairness_weight,omitempty"`

	Missed string   `json:"missed,omitempty"` // skip, once (the default) or all: what becomes of runs that nobody was there for
	Jitter Duration `json:"jitter,omitempty"` // the most a run is put off; default none
	Paused *bool    `json:"paused,omitempty"` // default false
}

// The words of a schedule's Missed.
const (
	MissedSkip = "skip" // none is made up for
	MissedOnce = "once" // one run for all of them
	MissedAll  = "all"  // each, the newest thousand at most
)

// Schedule is a schedule as GET /schedules/{id} answers it. Every field is always
// present in its JSON.
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
	FairnessWeight *int    `json:"fairness_weight"` // null: as its key has

	Missed    string   `json:"missed"`
	Jitter    Duration `json:"jitter"`
	Paused    bool     `json:"paused"`
	LastRun   *Time    `json:"last_run"` // the time of the last run it made by itself
	NextRun   *Time    `json:"next_run"` // null while paused
	CreatedAt Time     `json:"created_at"`

	// Version is for the client, which reads it off the answer's ETag; 0 in a list.
	Version int64 `json:"-"`
}

// ScheduleRunResponse answers POST /schedules/{id}/run.
type ScheduleRunResponse struct {
	Status string `json:"status"` // ok
	JobID  string `json:"job_id"`
}
