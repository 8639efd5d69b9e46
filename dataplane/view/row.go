package view

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// rowColumns are the columns that scanRow reads from hot h, document d, work w and extra x.
const rowColumns = `h.number, h.queue, h.state, h.priority, h.attempt, h.errors, h.worker_id, h.hostname, h.lease_expires_ns,
	h.created_ns, h.scheduled_ns, h.started_ns, h.completed_ns, h.failed_ns, h.usage,
	d.id, d.payload, d.max_retries, d.retry_backoff, d.retry_base_delay_ms, d.retry_max_delay_ms, d.tags, d.headers,
	d.result_schema, d.options, d.fairness_key, d.fairness_weight, w.progress, w.checkpoint, w.result, ` + extraColumns

// row is a job as the view has it: the parts of the record that a document shows.
type row struct {
	job   job.Job
	blobs Blobs
}

// size returns roughly the number of bytes that the job's document will have.
func (r *row) size() (n int) {
	for _, b := range r.blobs {
		n += len(b.GetData())
	}
	return n
}

// scanRow converts a row back to the record from which the row was made.
func scanRow(rows *sql.Rows, r *row) error {
	var (
		state, id, backoff                             string
		worker, hostname, usage, tags, headers, fair   sql.NullString
		expires, scheduled, started, completed, failed sql.NullInt64
		weight                                         sql.NullInt64
		payload, progress, checkpoint, result          []byte
		schema, options                                []byte
		j                                              = &r.job
		retry                                          = &job.Retry{}
		more                                           extraRow
	)
	if err := rows.Scan(append([]any{&j.Number, &j.Queue, &state, &j.Priority, &j.Attempt, &j.Errors, &worker, &hostname, &expires,
		&j.CreatedNs, &scheduled, &started, &completed, &failed, &usage,
		&id, &payload, &retry.MaxAttempts, &backoff, &retry.BaseDelayMs, &retry.MaxDelayMs, &tags, &headers,
		&schema, &options, &fair, &weight, &progress, &checkpoint, &result}, more.into()...)...); err != nil {
		return err
	}
	// Convert the columns of hot and document.
	known, err := job.ParseID(id)
	if err != nil {
		return fmt.Errorf("job number %d: %w", j.Number, err)
	}
	j.Id, j.Retry = known[:], retry
	var ok bool
	if j.State, ok = job.ParseState(state); !ok {
		return fmt.Errorf("job %s is in state %q, which does not exist", id, state)
	}
	if retry.Backoff, ok = job.ParseBackoff(backoff); !ok && backoff != "" {
		return fmt.Errorf("job %s has backoff %q, which does not exist", id, backoff)
	}
	j.ScheduledNs, j.StartedNs, j.CompletedNs, j.FailedNs = scheduled.Int64, started.Int64, completed.Int64, failed.Int64
	if worker.Valid || hostname.Valid || expires.Valid {
		j.Lease = &job.Lease{WorkerId: worker.String, Hostname: hostname.String, ExpiresNs: expires.Int64}
	}
	j.FairnessKey, j.FairnessWeight = fair.String, uint32(weight.Int64)
	if j.Tags, err = fromPairsText(tags); err != nil {
		return fmt.Errorf("tags of job %s: %w", id, err)
	}
	if j.Headers, err = fromPairsText(headers); err != nil {
		return fmt.Errorf("headers of job %s: %w", id, err)
	}
	if j.Usage, err = fromUsageText(usage); err != nil {
		return fmt.Errorf("usage of job %s: %w", id, err)
	}
	// Convert the blobs, the options and the columns of extra.
	for kind, data := range [job.BlobKinds][]byte{
		job.Payload: payload, job.Progress: progress, job.Checkpoint: checkpoint, job.Result: result,
		job.ResultSchema: schema,
	} {
		if data != nil {
			r.blobs[kind] = &job.Blob{Data: data}
		}
	}
	if options != nil {
		if err := j.Opt().UnmarshalVT(options); err != nil {
			return fmt.Errorf("decode the options of job %s: %w", id, err)
		}
	}
	if err := more.restore(r); err != nil {
		return fmt.Errorf("job %s: %w", id, err)
	}
	return nil
}

func fromPairsText(text sql.NullString) ([]*job.Pair, error) {
	if !text.Valid {
		return nil, nil
	}
	var object api.Strings
	if err := json.Unmarshal([]byte(text.String), &object); err != nil {
		return nil, err
	}
	pairs := make([]*job.Pair, 0, len(object))
	for name, value := range object {
		pairs = append(pairs, &job.Pair{Name: name, Value: value})
	}
	return pairs, nil
}

func fromUsageText(text sql.NullString) (*job.Usage, error) {
	if !text.Valid {
		return nil, nil
	}
	var u api.Usage
	if err := json.Unmarshal([]byte(text.String), &u); err != nil {
		return nil, err
	}
	return &job.Usage{
		InputTokens:         u.InputTokens,
		OutputTokens:        u.OutputTokens,
		CacheCreationTokens: u.CacheCreationTokens,
		CacheReadTokens:     u.CacheReadTokens,
		Model:               u.Model,
		Provider:            u.Provider,
		CostNanoUsd:         int64(u.CostUSD),
	}, nil
}
