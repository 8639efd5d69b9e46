package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// feedEvents are the feed events that ops emit for each event of the lifecycle.
var feedEvents = map[job.Event][]state.EventType{
	job.OnEnqueue: {evEnqueued}, job.OnSchedule: {evScheduled}, job.OnPromote: {evPromoted}, job.OnFetch: {evStarted},
	job.OnContinue: {evContinued}, job.OnAwait: {evContinued}, job.OnSuspend: {evHeld},
	job.OnRenew: {evRenewed}, job.OnReturn: {evReturned}, job.OnAck: {evCompleted},
	job.OnRetry: {evFailed, evRetrying}, job.OnExhaust: {evFailed, evDead},
	job.OnReclaim: {evReclaimed}, job.OnReclaimLast: {evReclaimed, evDead},
	job.OnCancel: {evCancelled}, job.OnStop: {evCancelling}, job.OnLetGo: {evCancelled},
	job.OnHold: {evHeld}, job.OnApprove: {evApproved}, job.OnReject: {evRejected, evDead},
	job.OnExpire: {evExpired, evDead}, job.OnBlock: {evUnblocked, evDead}, job.OnDrop: {evDead},
	job.OnPostpone: {evDebounced}, job.OnRevive: {evRevived},
}

// TestEveryRowOfTheLifecycleIsProjected takes a job with all properties, and one with none, through each
// transition of the lifecycle. It compares the view with the store before, after, and when the job is
// deleted.
func TestEveryRowOfTheLifecycleIsProjected(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	walked, events := 0, map[job.Event]bool{}
	for from := range job.State(job.States) {
		for e := job.OnEnqueue; e <= job.OnRevive; e++ {
			to, ok := job.Transition(from, e)
			if !ok {
				continue
			}
			walked++
			events[e] = true
			if feedEvents[e] == nil {
				t.Fatalf("nobody says which events tell of %q", e)
			}
			for _, full := range []bool{true, false} {
				t.Logf("%q of a job that is %q", e, from.Word())
				h.transit(from, e, to, full)
			}
		}
	}
	if len(events) != len(feedEvents) || walked < len(events) {
		t.Errorf("walked %d transitions of %d events, there are %d", walked, len(events), len(feedEvents))
	}
	if job.Event(len(feedEvents)) != job.OnRevive+1 {
		t.Errorf("there are events after %q", job.OnRevive)
	}
	h.same()
}

// transit creates a job in a state and takes it through a transition, while the view follows.
func (h *shard) transit(from job.State, e job.Event, to job.State, full bool) {
	h.t.Helper()
	var id job.ID
	born := from == 0
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue("q")
		j := h.newJob(tx, "q")
		id = job.ID(j.Id)
		must(h.t, tx.PutBlob(j, job.Payload, payload(`{"n":1}`)))
		if full {
			h.fill(tx, j)
		}
		events := []state.EventType{evEnqueued}
		if born {
			from, events = to, feedEvents[e]
		}
		h.stand(tx, j, from)
		must(h.t, tx.CreateJob(j, events...))
	})
	sameJob(h, id)
	if !born {
		h.change(id, func(tx *state.Tx, j *job.Job) { h.leaveBehind(tx, j, to, full) }, feedEvents[e]...)
		sameJob(h, id)
	}
	if !to.Settled() {
		return
	}
	h.commit(func(tx *state.Tx) {
		j, err := tx.Job(id)
		must(h.t, err)
		must(h.t, tx.DeleteJob(j, evDeleted))
	})
	sameAsStore(h.t.(*testing.T), h)
}

// fill gives a job all properties that few jobs have.
func (h *shard) fill(tx *state.Tx, j *job.Job) {
	now := tx.ClockNs()
	j.Opt().UniqueKey, j.Opt().UniquePeriodMs, j.Details().UniqueExpiresNs, j.Opt().UniqueWholePeriod = fmt.Sprint("key-", h.ids), 1000, now+int64(time.Hour), true
	j.Opt().ExpireAfterMs, j.Details().ExpireNs, j.Opt().ParentId, j.Opt().ScheduleId = 5000, now+5e9, otherID(1), otherID(30)
	j.Batch = &job.Membership{BatchId: otherID(10), Shard: 2, Counted: true}
	j.Chain = &job.ChainLink{ChainId: otherID(20), Ended: true}
	must(h.t, tx.PutBlob(j, job.ChainConfig, chainBlob(h.t, someChain(0))))
	j.Opt().DependencyPolicy, j.AttemptBase, j.Retry.JitterPercent = dependencyIgnored, 2, 25
	must(h.t, tx.PutError(j, &job.AttemptError{Attempt: 1, Error: "e", CreatedNs: now, WorkerId: "w", StartedNs: now, Outcome: job.Outcome_OUTCOME_RECLAIMED}))
}

// stand puts a job into a state and sets the fields that belong to the state.
func (h *shard) stand(tx *state.Tx, j *job.Job, in job.State) {
	j.State = in
	switch in {
	case job.Active:
		j.State = job.Pending
		fetched("w")(tx, j)
	case job.Scheduled, job.Retrying:
		j.ScheduledNs = tx.ClockNs() + int64(time.Hour)
	case job.Held:
		j.Details().HoldReason = "a person is to look"
	}
}

// leaveBehind puts a job that comes from another state into a state, as stand does, and adds the blobs and
// errors that the transition leaves behind. Only a full job may be cancelling.
func (h *shard) leaveBehind(tx *state.Tx, j *job.Job, to job.State, full bool) {
	cancelling := j.State == to && to == job.Active
	postponed := j.State == to && to == job.Scheduled
	j.Details().HoldReason = ""
	h.stand(tx, j, to)
	j.Cancelling = cancelling && full
	switch to {
	case job.Completed:
		j.CompletedNs = tx.ClockNs()
		must(h.t, tx.PutBlob(j, job.Result, payload(fmt.Sprint(j.Number))))
	case job.Dead:
		j.FailedNs = tx.ClockNs()
		must(h.t, tx.PutError(j, &job.AttemptError{Attempt: j.Attempt, Error: "end", CreatedNs: tx.ClockNs(), Outcome: job.Outcome_OUTCOME_REJECTED}))
	case job.Cancelled:
		j.Details().CancelledNs = tx.ClockNs()
	}
	if postponed { // the later enqueue replaced the payload
		must(h.t, tx.PutBlob(j, job.Payload, payload(`{"n":2}`)))
	}
}

// sameJob compares a job's rows with its record, and its document with the store's.
func sameJob(h *shard, id job.ID) {
	h.t.Helper()
	sameAsStore(h.t.(*testing.T), h)
	sameRecord(h, id)
}
