package api

import "encoding/json"

// FetchRequest asks for a job from the first of Queues that has one. Only
// Queues is required. Sent again with the same Idempotency-Key it answers the
// jobs it leased the first time, with the same tokens, as long as any of the
// leases holds, then LEASE_LOST; a fetch that got nothing is not remembered.
type FetchRequest struct {
	Queues   []string `json:"queues"`
	WorkerID string   `json:"worker_id,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	// Timeout is how many seconds to wait for a job: 0 to 60, more is clamped;
	// default 30. The answer comes half a second before it is over.
	Timeout *int `json:"timeout,omitempty"`
	// LeaseDuration is how many seconds the job is the worker's without a
	// heartbeat; default 60.
	LeaseDuration int `json:"lease_duration,omitempty"`
	// Concurrency is how many jobs the worker runs at once, shown by GET /workers; 0 = it
	// does not say.
	Concurrency int `json:"concurrency,omitempty"`
}

// FetchBatchRequest asks for up to Count jobs at once; it waits only while
// there is none.
type FetchBatchRequest struct {
	FetchRequest
	Count *int `json:"count,omitempty"` // default 1, clamped to 512
}

// FetchedJob is a job leased to a worker. LeaseToken proves the lease to ack,
// fail and heartbeat.
type FetchedJob struct {
	JobID         string          `json:"job_id"`
	Queue         string          `json:"queue"`
	Payload       json.RawMessage `json:"payload"`
	Attempt       int             `json:"attempt"`
	MaxRetries    int             `json:"max_retries"`
	LeaseDuration int             `json:"lease_duration"` // seconds, rounded down
	LeaseToken    string          `json:"lease_token"`
	Checkpoint    json.RawMessage `json:"checkpoint,omitempty"`
	Tags          Strings         `json:"tags,omitempty"`
	Headers       Strings         `json:"headers,omitempty"`
	Agent         *FetchedAgent   `json:"agent,omitempty"`        // of a job that runs in iterations
	ToolResults   []ToolResult    `json:"tool_results,omitempty"` // of the tools that the iteration before called
}

// FetchBatchResponse has what was leased, [] when nothing was.
type FetchBatchResponse struct {
	Jobs []FetchedJob `json:"jobs"`
}
