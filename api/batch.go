package api

import "encoding/json"

// NewBatch makes the jobs of an enqueue the members of a batch. When all members have settled, and the
// batch is not open, the batch is complete and a callback job is created in CallbackQueue.
type NewBatch struct {
	CallbackQueue   string          `json:"callback_queue,omitempty"`   // absent: no callback job
	CallbackPayload json.RawMessage `json:"callback_payload,omitempty"` // an object; default {}; the counts are added as "batch"
	Open            bool            `json:"open,omitempty"`             // more members can be added until it is sealed
	ParentID        string          `json:"parent_id,omitempty"`        // an open batch of which this one is a member
}

// Batch is the response of GET /batches/{id}. Its JSON always has every field. A member counts once, when
// it first settles; a later retry by a person changes nothing. A batch that is a member of another batch
// has succeeded if all its members have, and failed otherwise.
type Batch struct {
	ID        string `json:"id"`
	Status    string `json:"status"` // open, running or completed
	Open      bool   `json:"open"`
	Total     int64  `json:"total"`
	Pending   int64  `json:"pending"` // members not yet settled
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
	Cancelled int64  `json:"cancelled"` // or deleted before they settled

	CallbackQueue   *string         `json:"callback_queue"`
	CallbackPayload json.RawMessage `json:"callback_payload"`
	CallbackJobID   *string         `json:"callback_job_id"` // set once the batch is complete
	ParentID        *string         `json:"parent_id"`

	CreatedAt   Time  `json:"created_at"`
	CompletedAt *Time `json:"completed_at"`
}

// The values of Batch.Status.
const (
	BatchOpen      = "open"      // takes members
	BatchRunning   = "running"   // takes no more members, and some have not settled
	BatchCompleted = "completed" // all members have settled
)

// AddToBatchRequest creates members of an open batch, either all or none. The response is an
// EnqueueBatchResponse.
type AddToBatchRequest struct {
	Jobs []EnqueueRequest `json:"jobs"`
}
