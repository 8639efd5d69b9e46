package convert

import (
	"encoding/json"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// FromBulk converts a bulk operation and returns the jobs it names, each once. If the action is unknown,
// FromBulk reports only that, because the action decides which fields are needed. The caller adds the shards
// and the filter, which the leader of each shard evaluates later.
func FromBulk(f *Faults, b *api.BulkRequest) (*op.StartBulk, []job.ID) {
	o := &op.StartBulk{Queue: b.MoveToQueue}
	var ok bool
	if o.Action, ok = state.ParseBulkAction(b.Action); !ok {
		f.Invalid("action", "%s is not an action: use retry, requeue, cancel, move, change_priority, approve, reject, hold or delete", text.Quote(b.Action))
		return o, nil
	}
	moves, ranks := o.Action == state.BulkAction_BULK_ACTION_MOVE, o.Action == state.BulkAction_BULK_ACTION_CHANGE_PRIORITY
	if moves {
		if err := job.CheckQueueName(b.MoveToQueue); err != nil {
			f.Invalid("move_to_queue", "%v", err)
		}
	} else if b.MoveToQueue != "" {
		f.Invalid("move_to_queue", "is only for move: leave it out")
	}
	level, given, err := b.Priority.Level()
	switch {
	case err != nil:
		f.Invalid("priority", "%v", err)
	case given && !ranks:
		f.Invalid("priority", "is only for change_priority: leave it out")
	case !given && ranks:
		f.Invalid("priority", "is missing: give the new value")
	}
	o.Priority = uint32(level)
	switch {
	case len(b.JobIDs) > 0 && b.Filter != nil:
		f.Invalid("filter", "is there beside job_ids: give one of them, the jobs or how to find them")
	case len(b.JobIDs) == 0 && b.Filter == nil:
		f.Invalid("job_ids", "and filter are missing: give one of them")
	case len(b.JobIDs) > job.MaxBulkIDs:
		f.Invalid("job_ids", "has %d elements; at most %d are allowed: use a filter, or send several requests", len(b.JobIDs), job.MaxBulkIDs)
	case b.Filter != nil && everyJob(b.Filter):
		f.Invalid("filter", `has no condition and would match every job: add one, or give {"job_id_prefix":"job_"} for all jobs`)
	}
	return o, bulkIDs(f, b.JobIDs)
}

// everyJob reports whether a filter has no condition.
func everyJob(q *api.SearchFilter) bool {
	text, err := FilterText(q)
	return err == nil && string(text) == "{}"
}

// bulkIDs returns the jobs that a request names, each once. It reports only the first invalid id, and returns
// no jobs if there are more than job.MaxBulkIDs, which FromBulk reports.
func bulkIDs(f *Faults, texts []string) []job.ID {
	if len(texts) > job.MaxBulkIDs {
		return nil
	}
	ids, seen := make([]job.ID, 0, len(texts)), make(map[job.ID]bool, len(texts))
	bad := 0
	for _, given := range texts {
		id, err := job.ParseID(given)
		if err != nil {
			if bad++; bad == 1 {
				f.Invalid("job_ids", "has %s, which is not a job id", text.Quote(given))
			}
			continue
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// ToBulk converts a bulk operation to its API form. It fails only if the record is damaged.
func ToBulk(b *state.Bulk) (*api.Bulk, error) {
	id, err := job.IDFromBytes(b.GetId())
	if err != nil {
		return nil, err
	}
	p := ToProgress(b, 0)
	out := &api.Bulk{
		ID: job.BulkIDText(id), Status: p.Status, Action: b.Action.Word(),
		Total: p.Total, Processed: p.Processed, Affected: p.Affected, Errors: p.Errors,
		Failures:  make([]api.BulkFailure, 0, len(b.Failures)),
		CreatedAt: timeOf(b.CreatedNs), UpdatedAt: timeOf(b.UpdatedNs),
	}
	if b.Error != "" {
		out.Error = &b.Error
	}
	if b.FinishedNs > 0 {
		at := timeOf(b.FinishedNs)
		out.FinishedAt = &at
	}
	for _, why := range b.Failures {
		id, err := job.IDFromBytes(why.JobId)
		if err != nil {
			return nil, err
		}
		out.Failures = append(out.Failures, api.BulkFailure{JobID: id.String(), Code: why.Code, Error: why.Error})
	}
	return out, nil
}

// ToProgress returns the progress of a bulk operation at nowNs, or at its end if it has ended. Total is an
// estimate until the operation ends. Rate and EtaMs are 0 until a shard has reported a job.
func ToProgress(b *state.Bulk, nowNs int64) api.BulkProgress {
	c := b.Counts()
	p := api.BulkProgress{Status: bulkStatus(b), Processed: c.Processed(), Affected: c.Affected, Errors: c.Errors}
	p.Total = max(p.Processed, b.EstimatedTotal)
	if b.FinishedNs > 0 {
		p.Total, nowNs = p.Processed, b.FinishedNs
	}
	if took := float64(nowNs-b.CreatedNs) / 1e9; took > 0 && p.Processed > 0 {
		p.Rate = float64(p.Processed) / took
		p.EtaMs = int64(float64(p.Total-p.Processed) / p.Rate * 1000)
	}
	return p
}

func bulkStatus(b *state.Bulk) string {
	switch {
	case b.FinishedNs == 0 && !b.Begun():
		return api.BulkQueued
	case b.FinishedNs == 0:
		return api.BulkRunning
	case b.Error != "":
		return api.BulkFailed
	case b.Cancelled:
		return api.BulkCancelled
	}
	return api.BulkCompleted
}

// FilterText encodes a filter as JSON for the log.
func FilterText(q *api.SearchFilter) ([]byte, error) { return json.Marshal(q) }
