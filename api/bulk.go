package api

// BulkRequest applies one action to many jobs: those in JobIDs, or all that match Filter.
type BulkRequest struct {
	JobIDs      []string      `json:"job_ids,omitempty"` // at most 10,000
	Filter      *SearchFilter `json:"filter,omitempty"`
	Action      string        `json:"action"`                  // retry, requeue, cancel, move, change_priority, approve, reject, hold or delete
	MoveToQueue string        `json:"move_to_queue,omitempty"` // with move
	Priority    Priority      `json:"priority,omitempty"`      // with change_priority
	Async       bool          `json:"async,omitempty"`         // return at once, even if there are few jobs
}

// BulkResponse is the response for an operation that has ended.
type BulkResponse struct {
	Affected        uint64 `json:"affected"`
	Errors          uint64 `json:"errors"`
	DurationMs      int64  `json:"duration_ms"`
	BulkOperationID string `json:"bulk_operation_id"` // GET /bulk/{id} lists the errors
}

// BulkStarted is the response for an operation that continues.
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
	BulkFailed    = "failed" // a part of it could not continue
	BulkCancelled = "cancelled"
)

// Bulk is a bulk operation.
type Bulk struct {
	ID         string        `json:"id"`
	Status     string        `json:"status"`
	Action     string        `json:"action"`
	Total      uint64        `json:"total"`     // an estimate of the number of jobs; at the end, the number that was processed
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

// BulkProgress is one event in the progress of an operation. The last one has a status other than queued
// and running.
type BulkProgress struct {
	Status    string  `json:"status"`
	Processed uint64  `json:"processed"`
	Total     uint64  `json:"total"`
	Affected  uint64  `json:"affected"`
	Errors    uint64  `json:"errors"`
	Rate      float64 `json:"rate"`   // jobs per second since the start
	EtaMs     int64   `json:"eta_ms"` // estimated milliseconds to the end, at that rate
}
