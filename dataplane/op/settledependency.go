package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SettleDependency tells a waiting job that one of its dependencies has settled or does not exist, once for
// each dependency. Once every dependency has completed, a scheduled waiter becomes pending, or continues to
// wait for its due time; a held waiter stays held. If a dependency did not complete or does not exist, the
// waiter's policy decides: the waiter dies (fail), is held for a person's decision (hold), or counts the
// dependency like a completed one (ignore). An agent's job that waits for its tools counts each tool, however
// it ended.
//
// The op does nothing if the waiter no longer waits, because it has settled, is deleted or was released by a
// person; if the waiter is an agent's job that waits for tools and the job is not one of them; or if the
// waiter would have to be held and is held already.

// Validate refuses an op that no shard can have sent.
func (o *SettleDependency) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("waiter_id", checkID(o.WaiterId))
	p.add("job_id", checkID(o.JobId))
	if o.Outcome != job.State_STATE_UNSPECIFIED && !o.Outcome.Settled() {
		p.add("outcome", fmt.Errorf("is %q; nobody is told before a job settles", o.Outcome.Word()))
	}
	return p.err()
}

// Apply changes the waiter.
func (o *SettleDependency) Apply(tx *state.Tx) (*SettleDependencyResult, error) {
	j, err := jobOf(tx, o.WaiterId)
	if err != nil || j.GetBlockedBy() == 0 || j.State != job.Scheduled && j.State != job.Held {
		return &SettleDependencyResult{}, err
	}
	if j.Detail.GetIteration() > 0 {
		called, err := awaits(tx, j, o.JobId)
		if err != nil || !called {
			return &SettleDependencyResult{}, err
		}
		return &SettleDependencyResult{}, unblock(tx, j) // its agent reads the tool's outcome
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
	return &SettleDependencyResult{}, err
}

// unblock removes one job from those that j waits for. After the last one it promotes j, if j is scheduled and due.
// A held job stays held.
func unblock(tx *state.Tx, j *job.Job) error {
	j.BlockedBy--
	if j.BlockedBy > 0 || j.State != job.Scheduled || j.ScheduledNs > tx.ClockNs() {
		return tx.PutJob(j, state.EventType_EVENT_UNBLOCKED)
	}
	to, ok := job.Transition(j.State, job.OnPromote)
	if !ok {
		return fmt.Errorf("job %s is %s: it cannot become pending", job.ID(j.Id), j.State.Word())
	}
	j.State = to
	return tx.PutJob(j, state.EventType_EVENT_UNBLOCKED, state.EventType_EVENT_PROMOTED)
}

// hold keeps the waiter for a person's decision. A waiter that is already held keeps its reason.
func (o *SettleDependency) hold(tx *state.Tx, j *job.Job) error {
	if j.State == job.Held {
		return nil
	}
	return hold(tx, j, job.Hold_HOLD_DEPENDENCY, job.ID(o.JobId).String(), o.reason())
}

// fail makes the waiter die. A duty then notifies the jobs that depend on the waiter.
func (o *SettleDependency) fail(tx *state.Tx, j *job.Job) error {
	return die(tx, j, job.OnBlock, &job.AttemptError{Error: o.reason(), Outcome: job.Blocked})
}

// reason returns the text that tells people why the waiter cannot run.
func (o *SettleDependency) reason() string {
	if o.Outcome == job.State_STATE_UNSPECIFIED {
		return fmt.Sprintf("depends on %s, which does not exist", job.ID(o.JobId))
	}
	return fmt.Sprintf("depends on %s, which is %s", job.ID(o.JobId), o.Outcome.Word())
}
