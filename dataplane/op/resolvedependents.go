package op

import (
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ResolveDependents sends the outcomes of settled jobs to the jobs that wait for them, up to MaxNotified
// waiters at a time and while the entry has room. The other waiters stay due for the next op. It skips jobs
// that have not settled. If a job has gone to another shard, its waiters are registered there; if a job does
// not exist, its waiters learn that.
//
// It passes over a waiter while the outbox to the waiter's shard is full, and tries that waiter again after
// retryNotify. The time of that try is part of the state, because the duty would otherwise propose the same
// op again and again while the shard is unreachable.

const (
	// MaxNotified is the number of waiters that one ResolveDependents notifies.
	MaxNotified = 1000
	// maxPassedOver is the number of waiters of one job that ResolveDependents passes over before the waiters
	// after them have to wait too.
	maxPassedOver = 10_000
	// retryNotify is the delay after which ResolveDependents tries passed-over waiters again.
	retryNotify = time.Second
)

// Validate refuses an op that no state could accept.
func (o *ResolveDependents) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply notifies the waiters. It refuses nothing.
func (o *ResolveDependents) Apply(tx *state.Tx) (*ResolveDependentsResult, error) {
	notified := 0
	for _, b := range o.JobIds {
		id, err := job.IDFromBytes(b)
		if err != nil {
			return nil, err
		}
		n, err := resolve(tx, id, MaxNotified-notified)
		if err != nil {
			return nil, err
		}
		if notified += n; notified == MaxNotified {
			break
		}
	}
	return &ResolveDependentsResult{Notified: uint32(notified)}, nil
}

// resolve notifies the jobs that wait for a job, if their notification is due, and stops after `most` of
// them.
func resolve(tx *state.Tx, id job.ID, most int) (notified int, err error) {
	d, err := observe(tx, id)
	if err != nil || d == nil || d.SettledNs == 0 || d.RetryNs > tx.ClockNs() {
		return 0, err
	}
	notification, err := answer(tx, id, d.Settled)
	if err != nil {
		return 0, err
	}
	passed := 0
	for w, err := range tx.Waiters(id) {
		if err != nil || tx.Full() { // the others stay due
			return notified, err
		}
		shard, o := notification(w)
		if shard != tx.Shard() && !tx.CanSend(shard) {
			if passed++; passed == maxPassedOver {
				break
			}
			continue
		}
		if err := tx.RemoveWaiter(id, w.ID); err != nil {
			return notified, err
		}
		if err := send(tx, shard, o); err != nil {
			return notified, err
		}
		if notified++; notified == most {
			return notified, nil
		}
	}
	if passed == 0 {
		return notified, nil
	}
	d.RetryNs = tx.ClockNs() + int64(retryNotify)
	return notified, tx.PutDependents(id, d)
}

// answer returns a function that makes the op for a waiter and names the shard that must apply the op. The op
// tells the waiter the job's outcome, or that the job does not exist. If the job has gone to another shard,
// the op registers the waiter on that shard.
func answer(tx *state.Tx, id job.ID, settled job.State) (func(state.WaiterRow) (shard uint32, o Op), error) {
	if settled == job.State_STATE_UNSPECIFIED {
		f, err := tx.Forwarded(id)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return func(w state.WaiterRow) (uint32, Op) {
				return f.Shard, &WatchJob{JobId: id[:], WaiterId: w.ID[:], WaiterShard: w.Shard}
			}, nil
		}
	}
	return func(w state.WaiterRow) (uint32, Op) {
		return w.Shard, &SettleDependency{WaiterId: w.ID[:], JobId: id[:], Outcome: settled}
	}, nil
}
