package view

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

const (
	evCancelled       = state.EventType_EVENT_CANCELLED
	evCancelling      = state.EventType_EVENT_CANCELLING
	evHeld            = state.EventType_EVENT_HELD
	evApproved        = state.EventType_EVENT_APPROVED
	evRejected        = state.EventType_EVENT_REJECTED
	evExpired         = state.EventType_EVENT_EXPIRED
	evDeleted         = state.EventType_EVENT_DELETED
	evPurged          = state.EventType_EVENT_PURGED
	evRevived         = state.EventType_EVENT_REVIVED
	evUnlocked        = state.EventType_EVENT_UNLOCKED
	evDebounced       = state.EventType_EVENT_DEBOUNCED
	evUnblocked       = state.EventType_EVENT_UNBLOCKED
	evBatchChanged    = state.EventType_EVENT_BATCH_CHANGED
	evScored          = state.EventType_EVENT_SCORED
	evContinued       = state.EventType_EVENT_CONTINUED
	evGated           = state.EventType_EVENT_GATED
	evBatchCompleted  = state.EventType_EVENT_BATCH_COMPLETED
	dependencyIgnored = job.DependencyPolicy_DEPENDENCY_POLICY_IGNORE
)

// otherID returns an id that no job of the test has.
func otherID(n int) []byte {
	id := job.ID{0: 0x7f, 15: byte(n)}
	return id[:]
}

// chainBlob returns a chain in the form in which a job carries it.
func chainBlob(t testing.TB, c *job.Chain) *job.Blob {
	t.Helper()
	data, err := c.MarshalVT()
	must(t, err)
	return &job.Blob{Data: data}
}

// someChain returns a chain with all properties, or one of two with fewer.
func someChain(n int) *job.Chain {
	c := &job.Chain{Steps: []*job.Step{{Queue: "a", Shard: 1, Payload: payload(`{"x":"<&é"}`)}, {Queue: "b"}, {Queue: "c", Payload: payload(`null`)}}}
	switch n % 3 {
	case 0:
		c.OnFailure, c.Failure = job.OnFailure_ON_FAILURE_QUEUE, &job.Step{Queue: "alerts", Payload: payload(`[1,2]`)}
		c.Exit = &job.Step{Queue: "cleanup"}
	case 1:
		c.OnFailure = job.OnFailure_ON_FAILURE_CONTINUE
	}
	return c
}

// enrich gives a new job random properties that few jobs have, and sometimes all of them.
func (h *shard) enrich(tx *state.Tx, r *rand.Rand, j *job.Job) {
	h.t.Helper()
	all := r.IntN(4) == 0
	some := func() bool { return all || r.IntN(4) == 0 }
	now := tx.ClockNs()
	if some() {
		j.Opt().UniqueKey, j.Opt().UniquePeriodMs, j.Opt().UniqueWholePeriod = fmt.Sprint("key-", h.ids), 1000, r.IntN(2) == 0
		j.Details().UniqueExpiresNs = now + int64(time.Hour)
	}
	if some() {
		j.Opt().ExpireAfterMs, j.Details().ExpireNs = 5000, now+5e9+int64(h.ids)
	}
	if some() {
		j.Opt().ParentId = otherID(1 + r.IntN(3))
	}
	if some() {
		j.Batch = &job.Membership{BatchId: otherID(10 + r.IntN(3)), Shard: 2}
	}
	if some() {
		j.Chain = &job.ChainLink{ChainId: otherID(20 + r.IntN(3)), Step: uint32(r.IntN(3))}
		must(h.t, tx.PutBlob(j, job.ChainConfig, chainBlob(h.t, someChain(r.IntN(3)))))
	}
	if some() {
		j.State, j.ScheduledNs, j.BlockedBy = job.Scheduled, now, uint32(r.IntN(3))
		j.Opt().DependencyPolicy = job.DependencyPolicy(r.IntN(3))
	}
	if some() {
		j.Opt().ScheduleId = otherID(30 + r.IntN(3))
	}
	if some() {
		fill(r, j.Opt().ProtoReflect(), "debounce_key") // the job may not be scheduled, or have another job's debounce key
		must(h.t, tx.PutBlob(j, job.ResultSchema, payload(`{"type":"object"}`)))
	}
	if some() {
		// Leave out the fields that other records must agree with.
		fill(r, j.Details().ProtoReflect(), "unique_expires_ns", "gate", "gate_name",
			"iteration", "iterations_kept", "iteration_bytes", "checkpoint_in", "scores")
		h.score(tx, r, j)
		h.iterate(tx, r, j)
	}
	if j.State == job.Pending && some() {
		j.Details().Gate, j.Details().GateName = job.Gate(1+r.IntN(2)), "anthropic"
	}
	if some() {
		j.AttemptBase, j.Retry.JitterPercent = 2, 25
	}
}

// fill sets every unset field of a message, except those named, so that the tests cover a new field of the
// record automatically.
func fill(r *rand.Rand, m protoreflect.Message, but ...string) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if m.Has(f) || slices.Contains(but, string(f.Name())) {
			continue
		}
		switch {
		case f.IsList() && f.Kind() == protoreflect.BytesKind:
			m.Mutable(f).List().Append(protoreflect.ValueOfBytes(otherID(40)))
		case f.Message() != nil && !f.IsList():
			fill(r, m.Mutable(f).Message())
		case f.IsList():
			panic("no way to fill " + f.FullName())
		default:
			m.Set(f, someValue(r, f))
		}
	}
}

// someValue returns a value other than zero.
func someValue(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(1 + r.IntN(f.Enum().Values().Len()-1)))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(1 + r.Uint32N(1000))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1 + r.Uint64N(1e12))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1 + r.Int64N(1e12))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(otherID(40 + r.IntN(3)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s-%d", f.Name(), r.IntN(3)))
	}
	panic("no value for " + f.FullName())
}

// iterate ends an iteration of a job.
func (h *shard) iterate(tx *state.Tx, r *rand.Rand, j *job.Job) {
	h.t.Helper()
	number := j.Detail.GetIteration() + 1
	it := &job.Iteration{Number: number, Status: job.IterationStatus(1 + r.IntN(3)), CreatedNs: tx.ClockNs(), Attempt: j.Attempt, CheckpointIn: j.Detail.GetCheckpointIn(),
		Usage: &job.Usage{InputTokens: r.Int64N(100), Model: "m", CostNanoUsd: r.Int64N(1e9)}}
	if r.IntN(2) == 0 {
		it.Checkpoint, it.CheckpointIn = payload(fmt.Sprint(number)), number
		it.Trace, it.Result, it.HoldReason = payload(`["t"]`), payload(`{}`), "look"
	}
	j.Details().CheckpointIn = it.CheckpointIn
	must(h.t, tx.PutIteration(j, it))
}

// score gives a job a few scores, or removes those it had.
func (h *shard) score(tx *state.Tx, r *rand.Rand, j *job.Job) {
	h.t.Helper()
	all := &state.Scores{JobId: j.Id}
	for i := range r.IntN(4) {
		all.Scores = append(all.Scores, &job.Score{Dimension: fmt.Sprint("d", i), Value: float64(r.IntN(100)) / 7, Scorer: []string{"", "me"}[r.IntN(2)], CreatedNs: tx.ClockNs()})
	}
	j.Details().Scores = uint32(len(all.Scores))
	if len(all.Scores) == 0 {
		all = nil
	}
	must(h.t, tx.PutScores(job.ID(j.Id), all))
}

func (h *shard) enqueueRich(r *rand.Rand, queue string) (id job.ID) {
	h.t.Helper()
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue(queue)
		j := h.newJob(tx, queue)
		must(h.t, tx.PutBlob(j, job.Payload, payload(`{"rich":true}`)))
		h.enrich(tx, r, j)
		event := evEnqueued
		if j.State == job.Scheduled {
			event = evScheduled
		}
		must(h.t, tx.CreateJob(j, event))
		id = job.ID(j.Id)
	})
	return id
}

// paid marks a job as counted in its batch, and its chain as ended, so that the job may settle.
func paid(j *job.Job) {
	if j.Batch != nil {
		j.Batch.Counted = true
	}
	if j.Chain != nil {
		j.Chain.Ended = true
	}
}

// randomTurn applies a rare change to a job, and returns false if it changes nothing. It exists so that jobs
// gain and lose the properties that few jobs have.
func (h *shard) randomTurn(tx *state.Tx, r *rand.Rand, j *job.Job) bool {
	h.t.Helper()
	id := job.ID(j.Id)
	put := func(change func(j *job.Job), events ...state.EventType) bool {
		h.edit(tx, id, func(_ *state.Tx, j *job.Job) { change(j) }, events...)
		return true
	}
	switch {
	case j.State == job.Scheduled && r.IntN(4) == 0:
		return put(func(j *job.Job) {
			must(h.t, tx.PutBlob(j, job.Payload, payload(`{"again":true}`)))
			j.ScheduledNs += int64(time.Minute)
		}, evDebounced)
	case j.State == job.Scheduled && j.BlockedBy > 0:
		return put(func(j *job.Job) { j.BlockedBy-- }, evUnblocked)
	case j.State == job.Scheduled:
		return put(func(j *job.Job) { j.State = job.Pending }, evPromoted)
	case j.State == job.Held:
		return put(func(j *job.Job) {
			j.State, j.Details().HoldReason, j.Detail.HoldBy = job.Pending, "", ""
			j.Opt().CostEstimateNanoUsd++ // a person may change how the job runs
		}, evApproved)
	case j.State.Settled() && r.IntN(3) == 0:
		return put(func(j *job.Job) { h.score(tx, r, j) }, evScored)
	case j.State.Settled() && r.IntN(3) == 0:
		must(h.t, tx.DeleteJob(j, []state.EventType{evDeleted, evPurged}[r.IntN(2)]))
		return true
	case j.State.Settled():
		return put(func(j *job.Job) {
			must(h.t, tx.DeleteErrors(j))
			must(h.t, tx.DeleteBlob(j, job.Result))
			must(h.t, tx.PutScores(id, nil))
			j.Details().Scores = 0
			must(h.t, tx.DeleteIterations(j))
			j.State, j.Details().CancelledNs, j.AttemptBase = job.Pending, 0, j.AttemptBase^2
		}, evRevived)
	case r.IntN(4) > 0:
		return false
	case j.State == job.Active && !j.Cancelling && r.IntN(3) > 0:
		return put(func(j *job.Job) {
			h.iterate(tx, r, j)
			j.State, j.AttemptBase = job.Pending, j.Attempt
		}, evContinued)
	case j.State == job.Active && !j.Cancelling:
		return put(func(j *job.Job) { j.Cancelling = true }, evCancelling)
	case j.Detail.GetUniqueExpiresNs() > 0 && r.IntN(2) == 0:
		return put(func(j *job.Job) { j.Details().UniqueExpiresNs = 0 }, evUnlocked)
	case j.State == job.Pending && r.IntN(3) == 0:
		return put(func(j *job.Job) { j.Details().Gate, j.Detail.GateName = job.Gate_GATE_BUDGET, "queue/q1" }, evGated)
	case j.State == job.Pending && r.IntN(2) == 0:
		return put(func(j *job.Job) { j.State, j.Details().HoldReason = job.Held, "a person is to look" }, evHeld)
	}
	return put(func(j *job.Job) {
		j.State, j.Cancelling, j.Details().CancelledNs = job.Cancelled, false, tx.ClockNs()
		paid(j)
	}, evCancelled)
}

// randomGroup creates, changes or removes a batch, a schedule and a resource.
func (h *shard) randomGroup(tx *state.Tx, r *rand.Rand) {
	h.t.Helper()
	id := job.ID(otherID(10 + r.IntN(3)))
	b, err := tx.Batch(id)
	must(h.t, err)
	switch {
	case b == nil:
		b = &state.Batch{Id: id[:], Total: 5, Open: true, CreatedNs: tx.ClockNs()}
		if r.IntN(2) == 0 {
			b.CallbackQueue, b.ParentId, b.CallbackPayload = "done", otherID(12), true
			must(h.t, tx.PutBatchPayload(id, payload(`{"to":"<me>"}`)))
		}
		must(h.t, tx.PutBatch(b, evBatchChanged))
	case r.IntN(4) == 0:
		must(h.t, tx.DeleteBatch(id))
	default:
		b.Succeeded, b.Failed, b.Cancelled, b.Open = b.Succeeded+1, 1, 1, false
		b.CompletedNs = tx.ClockNs()
		must(h.t, tx.PutBatch(b, evBatchChanged, evBatchCompleted))
	}
	h.randomSchedule(tx, r)
	h.randomResource(tx, r)
}

func (h *shard) randomSchedule(tx *state.Tx, r *rand.Rand) {
	h.t.Helper()
	id := job.ID(otherID(30 + r.IntN(3)))
	s, err := tx.Schedule(id)
	must(h.t, err)
	switch {
	case s == nil:
		must(h.t, tx.PutSchedule(&state.Schedule{Id: id[:], Name: fmt.Sprint("nightly-", id[15]), Queue: "q1", Cron: "0 3 * * *", Timezone: "Europe/Berlin",
			Payload: payload(`{"n":1}`), MaxAttempts: 3, Priority: job.Normal, CreatedNs: tx.ClockNs(), NextRunNs: tx.ClockNs() + 1}, ""))
	case r.IntN(4) == 0:
		must(h.t, tx.DeleteSchedule(id))
	default:
		s.UniqueKey, s.Missed, s.JitterMs, s.Paused = "once", state.Missed(r.IntN(3)), 1000, r.IntN(2) == 0
		s.LastRunNs, s.NextRunNs = tx.ClockNs(), 0
		must(h.t, tx.PutSchedule(s, s.Name))
	}
}
