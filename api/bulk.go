package api

// BulkRequest applies one action to many jobs: either those in JobIDs, or all that match Filter, which must
// have a condition.
type BulkRequest struct {
	JobIDs      []string      `json:"job_ids,omitempty"` // at most 10,000
	Filter      *SearchFilter `json:"filter,omitempty"`
	Action      string        `json:"action"`                  // retry, requeue, cancel, move, change_priority, approve, reject, hold or delete
	MoveToQueue string        `json:"move_to_queue,omitempty"` // required with move, else refused
	Priority    Priority      `json:"priority,omitempty"`      // required with change_priority, else refused
	Async       bool          `json:"async,omitempty"`         // do not wait for the end; a request for more than 10,000 jobs never waits
}

// BulkResponse is the response (200) if the operation ended within 20 seconds.
type BulkResponse struct {
	Affected        uint64 `json:"affected"`
	Errors          uint64 `json:"errors"`
	DurationMs      int64  `json:"duration_ms"`
	BulkOperationID string `json:"bulk_operation_id"` // GET /bulk/{id} lists the errors
}

// BulkStarted is the response (202) if the operation continues after the response.
type BulkStarted struct {
	BulkOperationID string `json:"bulk_operation_id"`
	Status          string `json:"status"` // processing
	EstimatedTotal  uint64 `json:"estimated_total"`
	ProgressURL     string `json:"progress_url"`
}

// The statuses of a bulk operation.
const (
	BulkQueued    = "queued"
	BulkRunning   = "running"
	BulkCompleted = "completed"
	BulkFailed    = "failed" // the operation could not continue on some shard
	BulkCancelled = "cancelled"
)

// Bulk is a bulk operation.
type Bulk struct {
	ID         string        `json:"id"`
	Status     string        `json:"status"`
	Action     string        `json:"action"`
	Total      uint64        `json:"total"`     // estimated number of jobs; at the end, the number of processed jobs
	Processed  uint64        `json:"processed"` // affected + errors
	Affected   uint64        `json:"affected"`
	Errors     uint64        `json:"errors"`
	Error      *string       `json:"error,omitempty"` // why it failed
	Failures   []BulkFailure `json:"failures"`        // the first 1,000 errors
	CreatedAt  Time          `json:"created_at"`
	UpdatedAt  Time          `json:"updated_at"`
	FinishedAt *Time         `json:"finished_at,omitempty"`
}

// BulkFailure is the error of one job that was not affected.
type BulkFailure struct {
	JobID string `json:"job_id"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

// BulkProgress is one event in the progress of an operation. An event with a status other than queued or
// running is the last.
type BulkProgress struct {
	Status    string  `json:"status"`
	Processed uint64  `json:"processed"`
	Total     uint64  `json:"total"`
	Affected  uint64  `json:"affected"`
	Errors    uint64  `json:"errors"`
	Rate      float64 `json:"rate"`   // jobs per second since the start
	EtaMs     int64   `json:"eta_ms"` // estimated milliseconds to the end, at that rate
}
