package api

import "encoding/json"

// FetchRequest fetches a job from the first of Queues that has one. Only Queues is required. If a request
// repeats an Idempotency-Key, the response has the jobs of the first request with their lease tokens, without
// jobs whose lease is over. If all leases are over, the error is LEASE_LOST. A fetch that returned no job is
// not remembered. The error is CROSS_SHARD if the request has an Idempotency-Key and its queues lie on
// different shards.
type FetchRequest struct {
	Queues   []string `json:"queues"`              // 1 to 64
	WorkerID string   `json:"worker_id,omitempty"` // at most 256 bytes, like Hostname
	Hostname string   `json:"hostname,omitempty"`
	// Timeout is the number of seconds to wait for a job: 0 to 60, default 30; a larger value is reduced to
	// 60. If no job comes, the response is sent half a second before the end of that time.
	Timeout *int `json:"timeout,omitempty"`
	// LeaseDuration is the length of the lease without a heartbeat, in seconds, at most 86400; 0 = 60.
	LeaseDuration int `json:"lease_duration,omitempty"`
	// Concurrency is the number of jobs that the worker runs at once, for GET /workers; 0 = unknown.
	Concurrency int `json:"concurrency,omitempty"`
}

// FetchBatchRequest fetches up to Count jobs, from the queues in their order. It waits only while there is no
// job.
type FetchBatchRequest struct {
	FetchRequest
	Count *int `json:"count,omitempty"` // at least 1, default 1; more than 512 is reduced to 512
}

// FetchedJob is a job leased to a worker. LeaseToken proves the lease in ack, fail and heartbeat.
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
	Agent         *FetchedAgent   `json:"agent,omitempty"`        // only if the job runs in iterations
	ToolResults   []ToolResult    `json:"tool_results,omitempty"` // of the tool calls of the iteration before
}

// FetchBatchResponse lists the leased jobs; [] if there are none.
type FetchBatchResponse struct {
	Jobs []FetchedJob `json:"jobs"`
}
