package api

import "encoding/json"

// EnqueueRequest describes one new job. Only Queue is required.
type EnqueueRequest struct {
	Queue   string          `json:"queue"`
	Payload json.RawMessage `json:"payload,omitempty"` // any JSON, kept byte for byte; absent is {}

	Priority    Priority `json:"priority,omitempty"`     // default normal
	ScheduledAt Time     `json:"scheduled_at,omitempty"` // default now; the past is now

	MaxRetries     *int     `json:"max_retries,omitempty"`      // the most attempts, the first included; default 3
	RetryBackoff   string   `json:"retry_backoff,omitempty"`    // none, fixed, linear or exponential (the default)
	RetryBaseDelay Duration `json:"retry_base_delay,omitempty"` // delay before the first retry; default 5s
	RetryMaxDelay  Duration `json:"retry_max_delay,omitempty"`  // most a delay grows to; default 10m

	Tags       Strings         `json:"tags,omitempty"`       // searchable
	Headers    Strings         `json:"headers,omitempty"`    // come back on fetch
	Checkpoint json.RawMessage `json:"checkpoint,omitempty"` // given to the first attempt
}

// EnqueueResponse answers POST /enqueue: 201, or 200 for a duplicate.
type EnqueueResponse struct {
	JobID          string `json:"job_id"`
	Status         string `json:"status"` // pending, scheduled or duplicate
	UniqueExisting bool   `json:"unique_existing"`
}

// EnqueueBatchRequest creates all of its jobs or none.
type EnqueueBatchRequest struct {
	Jobs []EnqueueRequest `json:"jobs"`
}

// EnqueueBatchResponse has an id and a result for each job, by position.
type EnqueueBatchResponse struct {
	JobIDs  []string          `json:"job_ids"`
	Results []EnqueueResponse `json:"results,omitempty"`
}
