package view

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

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
	evBatchCompleted  = state.EventType_EVENT_BATCH_COMPLETED
	dependencyIgnored = job.DependencyPolicy_DEPENDENCY_POLICY_IGNORE
)

// otherID is an id that is no job's of the test.
func otherID(n int) []byte {
	id := job.ID{0: 0x7f, 15: byte(n)}
	return id[:]
}

// chainBlob is a chain as a job carries it along.
func chainBlob(t testing.TB, c *job.Chain) *job.Blob {
	t.Helper()
	data, err := c.MarshalVT()
	must(t, err)
	return &job.Blob{Data: data}
}

// someChain is a chain that has everything, or one of those that have less.
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

// enrich gives a new job what few have, at random, and all of it in some cases.
func (h *shard) enrich(tx *state.Tx, r *rand.Rand, j *job.Job) {
	h.t.Helper()
	all := r.IntN(4) == 0
	some := func() bool { return all || r.IntN(4) == 0 }
	now := tx.ClockNs()
	if some() {
		j.UniqueKey, j.UniquePeriodMs, j.UniqueWholePeriod = fmt.Sprint("key-", h.ids), 1000, r.IntN(2) == 0
		j.UniqueExpiresNs = now + int64(time.Hour)
	}
	if some() {
		j.ExpireAfterMs, j.ExpireNs = 5000, now+5e9+int64(h.ids)
	}
	if some() {
		j.ParentId = otherID(1 + r.IntN(3))
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
		j.DependencyPolicy = job.DependencyPolicy(r.IntN(3))
	}
	if some() {
		j.ScheduleId = otherID(30 + r.IntN(3))
	}
	if some() {
		j.AttemptBase, j.Retry.JitterPercent = 2, 25
	}
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

// paid notes that nothing is owed to a job's batch and chain, so that it may settle.
func paid(j *job.Job) {
	if j.Batch != nil {
		j.Batch.Counted = true
	}
	if j.Chain != nil {
		j.Chain.Ended = true
	}
}

// randomTurn does to a job what happens to few; false where it does nothing. That
// what few have comes and goes is what it is for.
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
		return put(func(j *job.Job) { j.State, j.HoldReason = job.Pending, "" }, evApproved)
	case j.State.Settled() && r.IntN(3) == 0:
		must(h.t, tx.DeleteJob(j, []state.EventType{evDeleted, evPurged}[r.IntN(2)]))
		return true
	case j.State.Settled():
		return put(func(j *job.Job) {
			must(h.t, tx.DeleteErrors(j))
			must(h.t, tx.DeleteBlob(j, job.Result))
			j.State, j.CancelledNs, j.AttemptBase = job.Pending, 0, j.AttemptBase^2
		}, evRevived)
	case r.IntN(4) > 0:
		return false
	case j.State == job.Active && !j.Cancelling:
		return put(func(j *job.Job) { j.Cancelling = true }, evCancelling)
	case j.UniqueExpiresNs > 0 && r.IntN(2) == 0:
		return put(func(j *job.Job) { j.UniqueExpiresNs = 0 }, evUnlocked)
	case j.State == job.Pending && r.IntN(2) == 0:
		return put(func(j *job.Job) { j.State, j.HoldReason = job.Held, "a person is to look" }, evHeld)
	}
	return put(func(j *job.Job) {
		j.State, j.Cancelling, j.CancelledNs = job.Cancelled, false, tx.ClockNs()
		paid(j)
	}, evCancelled)
}

// randomGroup makes, changes or removes a batch or a schedule.
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
