package view

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Blobs holds a job's blobs by kind. A blob that the job does not have is nil.
type Blobs [job.BlobKinds]*job.Blob

// Read makes the document of one job from the store's records, or returns nil if the job does not exist.
func Read(r state.Reader, id job.ID) (*api.Job, error) {
	j, err := r.Job(id)
	if j == nil || err != nil {
		return nil, err
	}
	blobs, err := readBlobs(r, id, j.Blobs)
	if err != nil {
		return nil, err
	}
	if blobs[job.Payload], err = composed(j, &blobs); err != nil {
		return nil, err
	}
	var errs []*job.AttemptError
	if j.Errors > 0 {
		if errs, err = r.Errors(id); err != nil {
			return nil, err
		}
	}
	doc, err := Document(j, blobs, errs)
	return &doc, err
}

// readBlobs reads the blobs whose bits are set in wanted, a set like job.Job.Blobs.
func readBlobs(r state.Reader, id job.ID, wanted uint32) (b Blobs, err error) {
	for kind := range job.BlobKinds {
		if wanted&(1<<kind) == 0 {
			continue
		}
		if b[kind], err = r.Blob(id, kind); err != nil {
			return Blobs{}, err
		}
	}
	return b, nil
}

// Document converts a job's record to the document that clients see. No other function does, so that a
// search, which reads the view's rows, and a read by id, which reads the store's records, return the same
// document. The payload in blobs must already have the members that the job's origin adds (see composed). errs
// are in the store's order, oldest first.
func Document(j *job.Job, blobs Blobs, errs []*job.AttemptError) (api.Job, error) {
	id, err := job.IDFromBytes(j.Id)
	if err != nil {
		return api.Job{}, fmt.Errorf("job number %d: %w", j.Number, err)
	}
	doc := api.Job{
		ID:               id.String(),
		Queue:            j.Queue,
		State:            j.State.Word(),
		Priority:         int(j.Priority),
		Attempt:          int(j.Attempt),
		MaxRetries:       int(j.Retry.GetMaxAttempts()),
		RetryBackoff:     j.Retry.GetBackoff().Word(),
		RetryBaseDelayMs: j.Retry.GetBaseDelayMs(),
		RetryMaxDelayMs:  j.Retry.GetMaxDelayMs(),
		Tags:             toStrings(j.Tags),
		Headers:          toStrings(j.Headers),
		ScheduledAt:      optionalTime(j.ScheduledNs),
		CreatedAt:        timeOf(j.CreatedNs),
		StartedAt:        optionalTime(j.StartedNs),
		CompletedAt:      optionalTime(j.CompletedNs),
		FailedAt:         optionalTime(j.FailedNs),
		Errors:           make([]api.JobError, len(errs)),
		Usage:            ToUsage(j.Usage),
		CostUSD:          money.Nano(j.Usage.GetCostNanoUsd()),
		BlockedBy:        int(j.BlockedBy),
	}
	if j.BlockedBy > 0 {
		doc.DependencyPolicy = optional(j.Options.GetDependencyPolicy().Word())
	}
	fields := [job.BlobKinds]*json.RawMessage{
		job.Payload: &doc.Payload, job.Result: &doc.Result, job.Checkpoint: &doc.Checkpoint, job.Progress: &doc.Progress,
		job.ResultSchema: &doc.ResultSchema,
	}
	for kind, field := range fields {
		if field == nil {
			continue // documents show this blob in another form or not at all
		}
		if *field, err = plain(blobs[kind]); err != nil {
			return api.Job{}, fmt.Errorf("blob %d of %s: %w", kind, id, err)
		}
	}
	if err := documentChain(&doc, j, blobs[job.ChainConfig]); err != nil {
		return api.Job{}, fmt.Errorf("job %s: %w", id, err)
	}
	doc.WorkerID, doc.Hostname = optional(j.Lease.GetWorkerId()), optional(j.Lease.GetHostname())
	if doc.WorkerID != nil || doc.Hostname != nil {
		doc.Worker = &api.JobWorker{ID: j.Lease.GetWorkerId(), Hostname: j.Lease.GetHostname()}
	}
	if j.State == job.Active {
		doc.LeaseExpiresAt = optionalTime(j.Lease.GetExpiresNs())
	}
	if err := documentEnqueue(&doc, j); err != nil {
		return api.Job{}, err
	}
	documentHold(&doc, j)
	documentAgent(&doc, j)
	for i, e := range errs {
		doc.Errors[i] = api.JobError{
			ID:        errorID(j.Number, i),
			JobID:     doc.ID,
			Attempt:   int(e.Made()),
			Error:     e.Error,
			Backtrace: optional(e.Backtrace),
			CreatedAt: timeOf(e.CreatedNs),
		}
	}
	if n := len(doc.Errors); n > 0 {
		doc.LastError = &doc.Errors[n-1].Error
	}
	doc.Attempts = attempts(j, &doc, errs)
	documentExtra(&doc, j)
	return doc, nil
}

// errorShift leaves room below a job's number for job.MaxErrorsKept errors in the ids of the job's errors.
// The SQL view job_errors shifts by the same number of bits.
const errorShift = 7

func errorID(number uint64, position int) int64 { return int64(number)<<errorShift | int64(position) }

// attempts derives the job's attempts from its errors and its latest lease. It reads the lease only of an
// active or completed job, because a pending job's lease may never have reached a worker and then counts as
// no attempt.
func attempts(j *job.Job, doc *api.Job, errs []*job.AttemptError) []api.JobAttempt {
	all := make([]api.JobAttempt, 0, len(errs)+1)
	for i, e := range errs {
		outcome := e.Outcome.Word()
		all = append(all, api.JobAttempt{
			Attempt:   int(e.Made()),
			WorkerID:  optional(e.WorkerId),
			StartedAt: optionalTime(e.StartedNs),
			EndedAt:   &doc.Errors[i].CreatedAt,
			Outcome:   &outcome,
		})
	}
	latest := api.JobAttempt{Attempt: doc.Attempt, WorkerID: doc.WorkerID, StartedAt: doc.StartedAt}
	switch j.State {
	case job.Active:
		return append(all, latest)
	case job.Completed:
		outcome := api.OutcomeCompleted
		latest.EndedAt, latest.Outcome = doc.CompletedAt, &outcome
		return append(all, latest)
	}
	return all
}

// plain returns a blob's data, or nil if there is no blob.
func plain(b *job.Blob) (json.RawMessage, error) {
	if b == nil || len(b.Data) == 0 {
		return nil, nil
	}
	if b.KeyId != "" {
		return nil, fmt.Errorf("it is sealed with key %q, which this node does not have", b.KeyId)
	}
	return b.Data, nil
}

func toStrings(pairs []*job.Pair) api.Strings {
	s := make(api.Strings, len(pairs))
	for _, p := range pairs {
		s[p.Name] = p.Value
	}
	return s
}

// ToUsage converts usage to the form that clients see. It returns nil if no usage was reported.
func ToUsage(u *job.Usage) *api.Usage {
	if u == nil {
		return nil
	}
	return &api.Usage{
		InputTokens:         u.InputTokens,
		OutputTokens:        u.OutputTokens,
		CacheCreationTokens: u.CacheCreationTokens,
		CacheReadTokens:     u.CacheReadTokens,
		Model:               u.Model,
		Provider:            u.Provider,
		CostUSD:             money.Nano(u.CostNanoUsd),
	}
}

func timeOf(ns int64) api.Time { return api.TimeOf(time.Unix(0, ns)) }

// optionalTime returns nil for 0, which means "never" in a record.
func optionalTime(ns int64) *api.Time {
	if ns == 0 {
		return nil
	}
	t := timeOf(ns)
	return &t
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
