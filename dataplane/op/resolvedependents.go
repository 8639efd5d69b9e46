package op

import (
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// ResolveDependents tells those who wait for jobs how these have settled, up to
// MaxTold of them at a time: what is left stays due, and is told by the next one.
// Ids of jobs that have not settled are skipped. Where a job has gone to another
// shard, the question goes after it; where it is nowhere, they hear that.
//
// Waiters of a shard to which too much is on its way are passed over and tried again
// after retryTold. Without that time in the state the duty would propose the same
// again and again, for as long as the shard cannot be reached.

const (
	// MaxTold is how many waiters one ResolveDependents tells.
	MaxTold = 1000
	// maxPassedOver is how many it looks at in vain, for each job: then those behind
	// have to wait too.
	maxPassedOver = 10_000
	// retryTold is when those are tried again that could not be told.
	retryTold = time.Second
)

// Number is ResolveDependents's number in the log.
func (*ResolveDependents) Number() entry.Number { return numResolveDependents }

// Class is ResolveDependents's place among waiting proposals.
func (*ResolveDependents) Class() pipeline.Class { return table[numResolveDependents].Class }

// Validate refuses what no state could accept.
func (o *ResolveDependents) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply tells the waiters. It refuses nothing.
func (o *ResolveDependents) Apply(tx *state.Tx) (*ResolveDependentsResult, error) {
	told := 0
	for _, b := range o.JobIds {
		id, err := job.IDFromBytes(b)
		if err != nil {
			return nil, err
		}
		n, err := resolve(tx, id, MaxTold-told)
		if err != nil {
			return nil, err
		}
		if told += n; told == MaxTold {
			break
		}
	}
	return &ResolveDependentsResult{Told: uint32(told)}, nil
}

// resolve tells up to most of those who wait for a job, if they are to be told now.
func resolve(tx *state.Tx, id job.ID, most int) (told int, err error) {
	d, err := observe(tx, id)
	if err != nil || d == nil || d.SettledNs == 0 || d.RetryNs > tx.ClockNs() {
		return 0, err
	}
	tell, err := answer(tx, id, d.Settled)
	if err != nil {
		return 0, err
	}
	passed := 0
	for w, err := range tx.Waiters(id) {
		if err != nil || tx.Full() { // the others stay due
			return told, err
		}
		shard, o := tell(w)
		if shard != tx.Shard() && !tx.CanSend(shard) {
			if passed++; passed == maxPassedOver {
				break
			}
			continue
		}
		if err := tx.RemoveWaiter(id, w.ID); err != nil {
			return told, err
		}
		if err := send(tx, shard, o); err != nil {
			return told, err
		}
		if told++; told == most {
			return told, nil
		}
	}
	if passed == 0 {
		return told, nil
	}
	d.RetryNs = tx.ClockNs() + int64(retryTold)
	return told, tx.PutDependents(id, d)
}

// answer is what those who wait for a job are told, and on which shard: how it has
// settled, or that it does not exist. Where it has gone to another shard, that one
// is asked for them.
func answer(tx *state.Tx, id job.ID, settled job.State) (func(state.WaiterRow) (shard uint32, o Op), error) {
	if settled == job.State_STATE_UNSPECIFIED {
		f, err := tx.Forwarded(id)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return func(w state.WaiterRow) (uint32, Op) {
				return f.Shard, &Watch{JobId: id[:], WaiterId: w.ID[:], WaiterShard: w.Shard}
			}, nil
		}
	}
	return func(w state.WaiterRow) (uint32, Op) {
		return w.Shard, &Met{WaiterId: w.ID[:], JobId: id[:], Outcome: settled}
	}, nil
}
