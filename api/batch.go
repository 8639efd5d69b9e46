package api

import "encoding/json"

// NewBatch makes the jobs of an enqueue the members of a batch. When all have
// settled, and the batch takes no more, it is complete, and a job is made in
// CallbackQueue that tells of it.
type NewBatch struct {
	CallbackQueue   string          `json:"callback_queue,omitempty"`   // absent: nobody is told
	CallbackPayload json.RawMessage `json:"callback_payload,omitempty"` // an object; default {}; the counts are added as "batch"
	Open            bool            `json:"open,omitempty"`             // takes more members until it is sealed
	ParentID        string          `json:"parent_id,omitempty"`        // an open batch that this one is a member of
}

// Batch is a batch and how its members have ended, as GET /batches/{id} answers
// it. Every field is always present. A member counts once, when it settles first: a
// retry by hand changes nothing. A batch that is a member of another has succeeded
// if all of its members have, else it has failed.
type Batch struct {
	ID        string `json:"id"`
	Status    string `json:"status"` // open, running or completed
	Open      bool   `json:"open"`
	Total     int64  `json:"total"`
	Pending   int64  `json:"pending"` // members that have not settled
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
	Cancelled int64  `json:"cancelled"` // or deleted before they settled

	CallbackQueue   *string         `json:"callback_queue"`
	CallbackPayload json.RawMessage `json:"callback_payload"`
	CallbackJobID   *string         `json:"callback_job_id"` // once it is complete
	ParentID        *string         `json:"parent_id"`

	CreatedAt   Time  `json:"created_at"`
	CompletedAt *Time `json:"completed_at"`
}

// The words of Batch.Status.
const (
	BatchOpen      = "open"      // takes members
	BatchRunning   = "running"   // takes none any more, and not all have settled
	BatchCompleted = "completed" // all have settled
)

// AddToBatchRequest creates members of an open batch, all of them or none. It is
// answered as an EnqueueBatchRequest is.
type AddToBatchRequest struct {
	Jobs []EnqueueRequest `json:"jobs"`
}
