package api

// BulkRequest asks for one action on many jobs: those with the ids, or all that the
// filter finds.
type BulkRequest struct {
	JobIDs      []string      `json:"job_ids,omitempty"` // at most 10,000
	Filter      *SearchFilter `json:"filter,omitempty"`
	Action      string        `json:"action"`                  // retry, requeue, cancel, move, change_priority, approve, reject, hold or delete
	MoveToQueue string        `json:"move_to_queue,omitempty"` // with move
	Priority    Priority      `json:"priority,omitempty"`      // with change_priority
	Async       bool          `json:"async,omitempty"`         // do not wait for the end, however few they are
}

// BulkResponse answers an operation that has ended.
type BulkResponse struct {
	Affected        uint64 `json:"affected"`
	Errors          uint64 `json:"errors"`
	DurationMs      int64  `json:"duration_ms"`
	BulkOperationID string `json:"bulk_operation_id"` // where the errors are listed
}

// BulkStarted answers an operation that goes on.
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
	BulkFailed    = "failed" // a part of it could not go on
	BulkCancelled = "cancelled"
)

// Bulk is a bulk operation.
type Bulk struct {
	ID         string        `json:"id"`
	Status     string        `json:"status"`
	Action     string        `json:"action"`
	Total      uint64        `json:"total"`     // jobs there seemed to be; at the end, those that were processed
	Processed  uint64        `json:"processed"` // affected, and errors
	Affected   uint64        `json:"affected"`
	Errors     uint64        `json:"errors"`
	Error      *string       `json:"error,omitempty"` // why it failed
	Failures   []BulkFailure `json:"failures"`        // the first 1,000 of the errors
	CreatedAt  Time          `json:"created_at"`
	UpdatedAt  Time          `json:"updated_at"`
	FinishedAt *Time         `json:"finished_at,omitempty"`
}

// BulkFailure is why a job was not affected.
type BulkFailure struct {
	JobID string `json:"job_id"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

// BulkProgress is one event of an operation's progress; the last one has a status
// other than queued and running.
type BulkProgress struct {
	Status    string  `json:"status"`
	Processed uint64  `json:"processed"`
	Total     uint64  `json:"total"`
	Affected  uint64  `json:"affected"`
	Errors    uint64  `json:"errors"`
	Rate      float64 `json:"rate"`   // jobs a second, since it began
	EtaMs     int64   `json:"eta_ms"` // until its end, at that rate
}
