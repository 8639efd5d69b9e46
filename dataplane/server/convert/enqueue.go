package convert

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// EnqueueBody is the body of POST /enqueue and an item of POST /enqueue/batch.
type EnqueueBody struct {
	api.EnqueueRequest
	unbuiltEnqueue
}

// EnqueueBatchBody is the body of POST /enqueue/batch.
type EnqueueBatchBody struct {
	Jobs []EnqueueBody `json:"jobs"`
	unbuiltEnqueueBatch
}

// FromEnqueue makes the job a request describes, defaults filled in.
func FromEnqueue(f *Faults, b *EnqueueBody, nowNs int64, maxPayload int) *op.NewJob {
	b.unbuiltEnqueue.report(f)
	if err := job.CheckQueueName(b.Queue); err != nil {
		f.Invalid("queue", "%v", err)
	}
	payload := b.Payload
	if Absent(payload) {
		payload = emptyObject
	}
	n := &op.NewJob{
		Queue:       b.Queue,
		Payload:     blob(f, "payload", payload, maxPayload),
		Priority:    job.Normal,
		Retry:       retry(f, &b.EnqueueRequest),
		ScheduledNs: scheduledNs(f, "scheduled_at", b.ScheduledAt, nowNs),
		Tags:        pairs(f, "tags", b.Tags, job.CheckTags),
		Headers:     pairs(f, "headers", b.Headers, job.CheckHeaders),
		Checkpoint:  blob(f, "checkpoint", b.Checkpoint, job.MaxCheckpoint),
	}
	switch level, ok, err := b.Priority.Level(); {
	case err != nil:
		f.Invalid("priority", "%v", err)
	case ok:
		n.Priority = uint32(level)
	}
	return n
}

// FromEnqueueBatch makes the jobs of a batch.
func FromEnqueueBatch(f *Faults, b *EnqueueBatchBody, nowNs int64, maxPayload int) []*op.NewJob {
	b.unbuiltEnqueueBatch.report(f)
	if len(b.Jobs) == 0 || len(b.Jobs) > job.MaxEnqueueJobs {
		f.Invalid("jobs", "has %d entries; it takes 1 to %d", len(b.Jobs), job.MaxEnqueueJobs)
		return nil
	}
	jobs := make([]*op.NewJob, len(b.Jobs))
	for i := range b.Jobs {
		f.scope = scope{list: "jobs", index: i}
		jobs[i] = FromEnqueue(f, &b.Jobs[i], nowNs, maxPayload)
	}
	f.scope = scope{}
	return jobs
}

// retry is a job's retry policy. Where only one of the two delays is given, the
// default of the other gives way to it: the first retry comes after exactly
// retry_base_delay, and no delay is longer than retry_max_delay.
func retry(f *Faults, r *api.EnqueueRequest) *job.Retry {
	out := job.NewRetry()
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
			f.Invalid("retry_backoff", "%s is not a backoff: use none, fixed, linear or exponential", Excerpt(r.RetryBackoff))
		}
		out.Backoff = word
	}
	out.BaseDelayMs = delayMs(f, "retry_base_delay", r.RetryBaseDelay, job.DefaultRetryBaseDelay)
	out.MaxDelayMs = delayMs(f, "retry_max_delay", r.RetryMaxDelay, job.DefaultRetryMaxDelay)
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

func delayMs(f *Faults, field string, d api.Duration, absent time.Duration) int64 {
	v, err := d.Parse(absent)
	switch {
	case err != nil:
		f.Invalid(field, "%v", err)
	case v > job.MaxRetryDelay:
		f.Invalid(field, "is %s; at most %s are allowed", v, job.MaxRetryDelay)
	case v%time.Millisecond != 0:
		f.Invalid(field, "is %s; delays are whole milliseconds", v)
	default:
		return v.Milliseconds()
	}
	return 0
}

// scheduledNs is when a job is due, 0 for now and the past.
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

// ToEnqueued is one created job as clients see it.
func ToEnqueued(e *op.Enqueued) (api.EnqueueResponse, error) {
	id, err := job.IDFromBytes(e.Id)
	if err != nil {
		return api.EnqueueResponse{}, fmt.Errorf("result of an enqueue: %w", err)
	}
	return api.EnqueueResponse{JobID: id.String(), Status: e.State.Word()}, nil
}

// unbuiltEnqueue are fields not built of an enqueue.
type unbuiltEnqueue struct {
	UniqueKey       json.RawMessage `json:"unique_key"`
	UniquePeriod    json.RawMessage `json:"unique_period"`
	UniqueUntil     json.RawMessage `json:"unique_until"`
	ExpireAfter     json.RawMessage `json:"expire_after"`
	Agent           json.RawMessage `json:"agent"`
	ParentID        json.RawMessage `json:"parent_id"`
	DependsOn       json.RawMessage `json:"depends_on"`
	Chain           json.RawMessage `json:"chain"`
	FairnessKey     json.RawMessage `json:"fairness_key"`
	FairnessWeight  json.RawMessage `json:"fairness_weight"`
	DebounceKey     json.RawMessage `json:"debounce_key"`
	Debounce        json.RawMessage `json:"debounce"`
	ResultSchema    json.RawMessage `json:"result_schema"`
	Provider        json.RawMessage `json:"provider"`
	Model           json.RawMessage `json:"model"`
	CostEstimateUSD json.RawMessage `json:"cost_estimate_usd"`
}

func (u *unbuiltEnqueue) report(f *Faults) {
	reportSet(f, []rawField{
		{"unique_key", u.UniqueKey}, {"unique_period", u.UniquePeriod}, {"unique_until", u.UniqueUntil},
		{"expire_after", u.ExpireAfter}, {"agent", u.Agent}, {"parent_id", u.ParentID},
		{"depends_on", u.DependsOn}, {"chain", u.Chain}, {"fairness_key", u.FairnessKey},
		{"fairness_weight", u.FairnessWeight}, {"debounce_key", u.DebounceKey}, {"debounce", u.Debounce},
		{"result_schema", u.ResultSchema}, {"provider", u.Provider}, {"model", u.Model},
		{"cost_estimate_usd", u.CostEstimateUSD},
	})
}

// unbuiltEnqueueBatch are fields not built of an enqueue/batch.
type unbuiltEnqueueBatch struct {
	Batch json.RawMessage `json:"batch"`
}

func (u *unbuiltEnqueueBatch) report(f *Faults) {
	reportSet(f, []rawField{{"batch", u.Batch}})
}
