package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// EnqueueBody is the body of POST /enqueue and an item of EnqueueBatchBody.
type EnqueueBody struct {
	api.EnqueueRequest
	unbuiltRouting
}

// unbuiltRouting are the fields of routing, which is not implemented. They are refused, because a producer
// that sets them expects its jobs to run elsewhere.
type unbuiltRouting struct {
	Routing       json.RawMessage `json:"routing"`
	RoutingTarget json.RawMessage `json:"routing_target"`
	RoutingIndex  json.RawMessage `json:"routing_index"`
}

// report adds a fault for each field that is set. The empty values null, "" and 0 count as absent.
func (u *unbuiltRouting) report(f *Faults) {
	if u.Routing == nil && u.RoutingTarget == nil && u.RoutingIndex == nil {
		return
	}
	for _, field := range [...]struct {
		name  string
		value json.RawMessage
	}{{"routing", u.Routing}, {"routing_target", u.RoutingTarget}, {"routing_index", u.RoutingIndex}} {
		if value := string(field.value); !Absent(field.value) && value != `""` && value != "0" {
			f.Unsupported(field.name)
		}
	}
}

// EnqueueBatchBody is the body of POST /enqueue/batch and POST /batches/{id}/jobs.
type EnqueueBatchBody struct {
	Jobs  []EnqueueBody `json:"jobs"`
	Batch *api.NewBatch `json:"batch"`
}

// newJob holds an op.NewJob with its own payload and retry policy, so that one allocation serves all three.
type newJob struct {
	op.NewJob
	payload job.Blob
	retry   job.Retry
}

// FromEnqueue converts the body of one enqueue to a job of the op and fills in defaults. The op shares the
// bytes of b's documents. The caller adds the shards of the dependencies and of the chain's queues.
func FromEnqueue(f *Faults, b *EnqueueBody, nowNs int64, maxPayload int) *op.NewJob {
	return new(newJob).read(f, b, nowNs, maxPayload)
}

func (into *newJob) read(f *Faults, b *EnqueueBody, nowNs int64, maxPayload int) *op.NewJob {
	if err := job.CheckQueueName(b.Queue); err != nil {
		f.Invalid("queue", "%v", err)
	}
	b.unbuiltRouting.report(f)
	payload := b.Payload
	if Absent(payload) {
		payload = emptyObject
	}
	n := &into.NewJob
	*n = op.NewJob{
		Queue:       b.Queue,
		Payload:     blobIn(&into.payload, f, "payload", payload, maxPayload),
		Priority:    job.Normal,
		Retry:       retry(&into.retry, f, &b.EnqueueRequest),
		ScheduledNs: scheduledNs(f, "scheduled_at", b.ScheduledAt, nowNs),
		Tags:        pairs(f, "tags", b.Tags, job.CheckTags),
		Headers:     pairs(f, "headers", b.Headers, job.CheckHeaders),
		Checkpoint:  blob(f, "checkpoint", b.Checkpoint, job.MaxCheckpoint),
		Defaults:    leftOpen(&b.EnqueueRequest),
		DependsOn:   dependencies(f, b.DependsOn),
	}
	n.ResultSchema = resultSchema(f, b.ResultSchema)
	if b.ExpireAfter != "" {
		ms := millis(f, "expire_after", b.ExpireAfter, 0, job.MaxExpireAfter)
		if ms == 0 {
			f.Invalid("expire_after", "is 0: give the lifetime of the job, or leave it out")
		}
		n.Opt().ExpireAfterMs = ms
	}
	if a := agent(f, b.Agent); a != nil {
		n.Opt().Agent = a
	}
	if b.ParentID != "" {
		n.Opt().ParentId = parentID(f, b.ParentID)
	}
	if policy := dependencyPolicy(f, b.DependencyPolicy); policy != 0 {
		n.Opt().DependencyPolicy = policy
	}
	switch level, ok, err := b.Priority.Level(); {
	case err != nil:
		f.Invalid("priority", "%v", err)
	case ok:
		n.Priority = uint32(level)
	}
	model(f, &b.EnqueueRequest, n)
	n.FairnessKey, n.FairnessWeight = fairness(f, b.FairnessKey, b.FairnessWeight)
	unique(f, &b.EnqueueRequest, n)
	debounce(f, &b.EnqueueRequest, n)
	fromChain(f, b, n, maxPayload)
	return n
}

// leftOpen returns the settings that the request leaves to the defaults of its queue.
func leftOpen(r *api.EnqueueRequest) (bits uint32) {
	for _, left := range [...]struct {
		bit  uint32
		open bool
	}{
		{job.DefaultsPriority, r.Priority == ""},
		{job.DefaultsMaxAttempts, r.MaxRetries == nil},
		{job.DefaultsBackoff, r.RetryBackoff == ""},
		{job.DefaultsBaseDelay, r.RetryBaseDelay == ""},
		{job.DefaultsMaxDelay, r.RetryMaxDelay == ""},
		{job.DefaultsJitter, r.RetryJitterPercent == nil},
		{job.DefaultsExpireAfter, r.ExpireAfter == ""},
	} {
		if left.open {
			bits |= left.bit
		}
	}
	return bits
}

// parentID converts the id of the parent job.
func parentID(f *Faults, given string) []byte {
	id, err := job.ParseID(given)
	if err != nil {
		f.Invalid("parent_id", "%s is not the id of a job", text.Quote(given))
		return nil
	}
	return id[:]
}

// batchOf reports whether n jobs may be enqueued at once. If they may not, it adds a fault of the list.
func (f *Faults) batchOf(list string, n int) bool {
	if n >= 1 && n <= job.MaxEnqueueJobs {
		return true
	}
	f.Invalid(list, "has %d entries; it takes 1 to %d", n, job.MaxEnqueueJobs)
	return false
}

// FromEnqueueBatch converts the jobs of a batch request, 1 to job.MaxEnqueueJobs, but not its new batch.
func FromEnqueueBatch(f *Faults, b *EnqueueBatchBody, nowNs int64, maxPayload int) []*op.NewJob {
	if !f.batchOf("jobs", len(b.Jobs)) {
		return nil
	}
	jobs, all := make([]*op.NewJob, len(b.Jobs)), make([]newJob, len(b.Jobs))
	for i := range b.Jobs {
		f.scope = scope{list: "jobs", index: i}
		jobs[i] = all[i].read(f, &b.Jobs[i], nowNs, maxPayload)
	}
	f.scope = scope{}
	return jobs
}

// retry converts a job's retry policy. If the request sets only one of the two delays, and retry_base_delay
// would exceed retry_max_delay, the unset delay becomes equal to the set one.
func retry(out *job.Retry, f *Faults, r *api.EnqueueRequest) *job.Retry {
	out.Fill()
	if n := r.MaxRetries; n != nil {
		if *n < 1 || *n > job.MaxAttempts {
			f.Invalid("max_retries", "is %d; it counts attempts, from 1 to %d", *n, job.MaxAttempts)
		} else {
			out.MaxAttempts = uint32(*n)
		}
	}
	if r.RetryBackoff != "" {
		word, ok := job.ParseBackoff(r.RetryBackoff)
		if !ok {
			f.Invalid("retry_backoff", "%s is not a backoff: use none, fixed, linear or exponential", text.Quote(r.RetryBackoff))
		}
		out.Backoff = word
	}
	out.BaseDelayMs = millis(f, "retry_base_delay", r.RetryBaseDelay, job.DefaultRetryBaseDelay, job.MaxRetryDelay)
	out.MaxDelayMs = millis(f, "retry_max_delay", r.RetryMaxDelay, job.DefaultRetryMaxDelay, job.MaxRetryDelay)
	if n := r.RetryJitterPercent; n != nil {
		if *n < 0 || *n > job.MaxJitterPercent {
			f.Invalid("retry_jitter_percent", "is %d; it lies between 0 and %d", *n, job.MaxJitterPercent)
		} else {
			out.JitterPercent = uint32(*n)
		}
	}
	if out.BaseDelayMs > out.MaxDelayMs {
		switch {
		case r.RetryMaxDelay == "":
			out.MaxDelayMs = out.BaseDelayMs
		case r.RetryBaseDelay == "":
			out.BaseDelayMs = out.MaxDelayMs
		default:
			f.Invalid("retry_max_delay", "is shorter than retry_base_delay")
		}
	}
	return out
}

// millis converts a duration to milliseconds; an empty duration means absent. It refuses a duration that
// exceeds most or is not a whole number of milliseconds, and then returns 0.
func millis(f *Faults, field string, d api.Duration, absent, most time.Duration) int64 {
	v, err := d.Parse(absent)
	switch {
	case err != nil:
		f.Invalid(field, "%v", err)
	case v > most:
		f.Invalid(field, "is %s; at most %s are allowed", v, most)
	case v%time.Millisecond != 0:
		f.Invalid(field, "is %s; it takes whole milliseconds", v)
	default:
		return v.Milliseconds()
	}
	return 0
}

// anyMillis does the same as millis, but has no upper bound, because its callers check the bounds.
func anyMillis(f *Faults, field string, d api.Duration) int64 {
	return millis(f, field, d, 0, math.MaxInt64)
}

// scheduledNs converts the due time of a job. It returns 0, which means now, for an absent or past time. It
// refuses a time that lies more than job.MaxSchedule ahead.
func scheduledNs(f *Faults, field string, t api.Time, nowNs int64) int64 {
	at, ok, err := t.Parse()
	now := time.Unix(0, nowNs)
	switch {
	case err != nil:
		f.Invalid(field, "%v", err)
	case !ok || !at.After(now):
	case at.After(now.Add(job.MaxSchedule)):
		f.Invalid(field, "lies more than %d days ahead", job.MaxSchedule/(24*time.Hour))
	default:
		return at.UnixNano()
	}
	return 0
}

// ToEnqueued converts the outcome of one enqueued job to its API form. If HasResult(e), it reads the result
// of the job from the store. Before such a call, the caller waits until the store has the enqueue's own write
// (awaitOwn of package server), because a store that is behind may lack the result.
func ToEnqueued(from state.Reader, e *op.Enqueued) (api.EnqueueResponse, error) {
	id, err := job.IDFromBytes(e.Id)
	if err != nil {
		return api.EnqueueResponse{}, fmt.Errorf("result of an enqueue: %w", err)
	}
	r := api.EnqueueResponse{JobID: id.String(), Status: e.State.Word(), UniqueExisting: e.Found != op.Found_FOUND_NONE}
	switch e.Found {
	case op.Found_FOUND_DUPLICATE:
		r.Status = api.StatusDuplicate
		if HasResult(e) {
			r.Result, err = resultOf(from, id)
		}
	case op.Found_FOUND_DEBOUNCED:
		r.Status = api.StatusDebounced
	}
	return r, err
}

// HasResult reports whether ToEnqueued reads the result of a job.
func HasResult(e *op.Enqueued) bool {
	return e.Found == op.Found_FOUND_DUPLICATE && e.State == job.Completed
}

// resultOf returns a job's result, or nil if it has none or no longer exists.
func resultOf(from state.Reader, id job.ID) (json.RawMessage, error) {
	b, err := from.Blob(id, job.Result)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the result of %s: %w", id, err)
	case b == nil:
		return nil, nil
	case b.KeyId != "":
		return nil, fmt.Errorf("the result of %s is sealed with key %q, which this node does not have", id, b.KeyId)
	}
	return b.Data, nil
}
