package convert

import (
	"bytes"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// FromNewBatch converts the batch that an enqueue creates, or returns nil if b is nil. The caller adds the
// shard of the callback's queue and checks the parent.
func FromNewBatch(f *Faults, b *api.NewBatch) *op.NewBatch {
	if b == nil {
		return nil
	}
	out := &op.NewBatch{CallbackQueue: b.CallbackQueue, Open: b.Open}
	if b.CallbackQueue != "" {
		if err := job.CheckQueueName(b.CallbackQueue); err != nil {
			f.Invalid("batch.callback_queue", "%v", err)
		}
	}
	if !Absent(b.CallbackPayload) {
		out.CallbackPayload = callbackPayload(f, b)
	}
	if b.ParentID != "" {
		id, err := job.ParseBatchID(b.ParentID)
		if err != nil {
			f.Invalid("batch.parent_id", "%s is not a batch id", text.Quote(b.ParentID))
		}
		out.ParentId = id[:]
	}
	return out
}

// callbackPayload converts the payload of a batch's callback. The payload must be an object, because the
// batch's counts are added to it as one more member. callbackPayload refuses a payload without a callback's
// queue, because no job would receive it.
func callbackPayload(f *Faults, b *api.NewBatch) *job.Blob {
	const field = "batch.callback_payload"
	switch {
	case b.CallbackQueue == "":
		f.Invalid(field, "needs callback_queue: give it as well, or leave this out")
	case bytes.TrimLeft(b.CallbackPayload, " \t\r\n")[0] != '{':
		f.Invalid(field, "is not an object")
	}
	return blob(f, field, b.CallbackPayload, job.MaxBatchPayload)
}

// NotInBatch refuses a new batch in a request that adds jobs to an existing one.
func NotInBatch(f *Faults, b *EnqueueBatchBody) {
	if b.Batch != nil {
		f.Invalid("batch", "creates a new batch, but the jobs are for an existing one: leave it out")
	}
}

// ToBatch converts a batch to its API form. payload is the payload of the batch's callback, or nil. ToBatch
// fails if the payload is sealed with a key or the record is damaged.
func ToBatch(b *state.Batch, payload *job.Blob) (*api.Batch, error) {
	id, err := job.IDFromBytes(b.GetId())
	if err != nil {
		return nil, fmt.Errorf("record of a batch: %w", err)
	}
	if payload.GetKeyId() != "" {
		return nil, fmt.Errorf("the payload of the callback of %s is sealed with key %q, which this node does not have", job.BatchIDText(id), payload.KeyId)
	}
	out := &api.Batch{
		ID:              job.BatchIDText(id),
		Status:          batchStatus(b),
		Open:            b.Open,
		Total:           int64(b.Total),
		Pending:         int64(b.Total - b.Settled()),
		Succeeded:       int64(b.Succeeded),
		Failed:          int64(b.Failed),
		Cancelled:       int64(b.Cancelled),
		CallbackPayload: payload.GetData(),
		CreatedAt:       timeOf(b.CreatedNs),
	}
	if b.CallbackQueue != "" {
		out.CallbackQueue = &b.CallbackQueue
	}
	if len(b.CallbackJobId) > 0 {
		text := job.ID(b.CallbackJobId).String()
		out.CallbackJobID = &text
	}
	if len(b.ParentId) > 0 {
		text := BatchID(b.ParentId)
		out.ParentID = &text
	}
	if b.CompletedNs > 0 {
		at := timeOf(b.CompletedNs)
		out.CompletedAt = &at
	}
	return out, nil
}

func batchStatus(b *state.Batch) string {
	switch {
	case b.Open:
		return api.BatchOpen
	case b.CompletedNs == 0:
		return api.BatchRunning
	}
	return api.BatchCompleted
}

// BatchID returns the API form of a batch's id, or "" for none.
func BatchID(id []byte) string {
	if len(id) == 0 {
		return ""
	}
	return job.BatchIDText(job.ID(id))
}
