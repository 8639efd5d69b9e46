package api

import "encoding/json"

// NewBatch makes the jobs that an enqueue creates the members of a new batch. The batch is complete when it
// is not open and all members have settled. A callback job is then created in CallbackQueue.
type NewBatch struct {
	CallbackQueue   string          `json:"callback_queue,omitempty"`   // absent: no callback job
	CallbackPayload json.RawMessage `json:"callback_payload,omitempty"` // an object of at most 256 KiB; default {}; the counts are added as "batch"; requires callback_queue
	Open            bool            `json:"open,omitempty"`             // more members can be added until the batch is sealed
	ParentID        string          `json:"parent_id,omitempty"`        // an open batch on the same shard, which gets this one as a member
}

// Batch is the response of GET /batches/{id} and POST /batches/{id}/seal. Its JSON always has every field. A
// member counts once, when it first settles; if a person retries it later, the counts stay. A batch that is a
// member of another batch counts as succeeded if all its own members have succeeded, and as failed if one has
// not.
type Batch struct {
	ID        string `json:"id"`
	Status    string `json:"status"` // open, running or completed
	Open      bool   `json:"open"`
	Total     int64  `json:"total"`
	Pending   int64  `json:"pending"` // members not yet settled
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
	Cancelled int64  `json:"cancelled"` // including members deleted before they settled

	CallbackQueue   *string         `json:"callback_queue"`
	CallbackPayload json.RawMessage `json:"callback_payload"`
	CallbackJobID   *string         `json:"callback_job_id"` // null until the batch is complete, and without a callback queue
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

// AddToBatchRequest adds 1 to 1,000 new jobs to an open batch, either all or none. The error is
// STATE_CONFLICT if the batch is sealed, and CROSS_SHARD if a queue lies on another shard than the batch. The
// response is an EnqueueBatchResponse.
type AddToBatchRequest struct {
	Jobs []EnqueueRequest `json:"jobs"`
}
