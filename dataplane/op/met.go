package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Met tells a job how one it depends on has settled, once for each of them. The last
// one that completed lets it go: it is pending, or waits on for its due time. One
// that did not complete, or is nowhere, does what the waiter's policy says: the
// waiter is dead, or held until a person decides, or counts it like any other. An
// agent's job that waits for its tools counts each, however it ended.
//
// It does nothing to a waiter that does not wait any more: one that has settled, is
// gone, or was let go by a person, wherever it is then.

// Number is Met's number in the log.
func (*Met) Number() entry.Number { return numMet }

// Class is Met's place among waiting proposals.
func (*Met) Class() pipeline.Class { return table[numMet].Class }

// Validate refuses what no shard can have sent.
func (o *Met) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("waiter_id", checkID(o.WaiterId))
	p.add("job_id", checkID(o.JobId))
	if o.Outcome != job.State_STATE_UNSPECIFIED && !o.Outcome.Settled() {
		p.add("outcome", fmt.Errorf("is %q; nobody is told before a job settles", o.Outcome.Word()))
	}
	return p.err()
}

// Apply tells the waiter.
func (o *Met) Apply(tx *state.Tx) (*MetResult, error) {
	j, err := jobOf(tx, o.WaiterId)
	if err != nil || j.GetBlockedBy() == 0 || j.State != job.Scheduled && j.State != job.Held {
		return &MetResult{}, err
	}
	if j.Detail.GetIteration() > 0 {
		called, err := awaits(tx, j, o.JobId)
		if err != nil || !called {
			return &MetResult{}, err
		}
		return &MetResult{}, unblock(tx, j) // its agent sees what came of the tool
	}
	switch {
	case o.Outcome == job.Completed, j.Options.GetDependencyPolicy() == job.DependencyIgnore:
		err = unblock(tx, j)
	case j.Options.GetDependencyPolicy() == job.DependencyHold:
		err = o.hold(tx, j)
	case j.Options.GetDependencyPolicy() == job.DependencyFail:
		err = o.fail(tx, j)
	default:
		err = fmt.Errorf("job %s has dependency policy %d, which this binary does not know: upgrade it", job.ID(j.Id), j.Options.GetDependencyPolicy())
	}
	return &MetResult{}, err
}

// unblock counts one job less that j waits for, and lets it go after the last. Where
// a person holds it, that person still does.
func unblock(tx *state.Tx, j *job.Job) error {
	j.BlockedBy--
	if j.BlockedBy > 0 || j.State != job.Scheduled || j.ScheduledNs > tx.ClockNs() {
		return tx.PutJob(j, state.EventType_EVENT_UNBLOCKED)
	}
	to, ok := job.Next(j.State, job.OnPromote)
	if !ok {
		return fmt.Errorf("job %s is %s: it cannot become pending", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	return tx.PutJob(j, state.EventType_EVENT_UNBLOCKED, state.EventType_EVENT_PROMOTED)
}

// hold keeps the waiter for a person to decide. One that is held already stays so,
// for the reason it has.
func (o *Met) hold(tx *state.Tx, j *job.Job) error {
	if j.State == job.Held {
		return nil
	}
	return hold(tx, j, job.Hold_HOLD_DEPENDENCY, job.ID(o.JobId).String(), o.reason())
}

// fail ends the waiter, and so tells those who wait for it in turn.
func (o *Met) fail(tx *state.Tx, j *job.Job) error {
	return die(tx, j, job.OnBlock, &job.AttemptError{Error: o.reason(), Outcome: job.Blocked})
}

// reason is why a waiter cannot simply run, for people.
func (o *Met) reason() string {
	if o.Outcome == job.State_STATE_UNSPECIFIED {
		return fmt.Sprintf("depends on %s, which does not exist", job.ID(o.JobId))
	}
	return fmt.Sprintf("depends on %s, which is %s", job.ID(o.JobId), o.Outcome.Word())
}
