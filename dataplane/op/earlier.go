package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// repeats says whether the op may be applied again unasked. One that has put a job
// off may not: nothing keeps that it did. Were it repeated, it would put the job off
// further, over what somebody else has said since, or, once that job runs, make
// another one.
func (o *Enqueue) repeats() bool {
	for _, nj := range o.Jobs {
		if nj.Options.GetDebounceKey() != "" {
			return false
		}
	}
	return true
}

// earlier is the answer of this op's own earlier effect: nil when none of its
// jobs is or was here. Jobs may be gone since; one that is left tells when it was,
// as does one that has gone to another shard.
//
// Which of its jobs were not made, for another had their key, the locks tell as
// long as that other holds it. A lock that is free since says nothing: such a job
// is taken for one that was made and is gone, and answered with its own id. Of an op
// that made no job nothing is left: it is applied again, and finds who has the keys
// now.
func (o *Enqueue) earlier(tx *state.Tx) (*EnqueueResult, error) {
	for _, b := range o.GetMeta().GetIds() {
		createdNs, was, err := wasCreated(tx, b)
		if err != nil {
			return nil, err
		}
		if was {
			return o.recall(tx, createdNs)
		}
	}
	return o.earlierBatch(tx)
}

// wasCreated says when the job of an id was created, if it is here or was and has
// gone to another shard.
func wasCreated(tx *state.Tx, id []byte) (atNs int64, was bool, err error) {
	j, err := jobOf(tx, id)
	if err != nil {
		return 0, false, err
	}
	if j != nil {
		return j.CreatedNs, true, nil
	}
	gone, err := tx.Forwarded(job.ID(id))
	if err != nil || gone == nil {
		return 0, false, err
	}
	return gone.CreatedNs, true, nil
}

// recall is what the op answered when it was applied at clockNs.
func (o *Enqueue) recall(tx *state.Tx, clockNs int64) (*EnqueueResult, error) {
	r := o.newResult()
	for i, nj := range o.Jobs {
		e := r.Jobs[i]
		e.Id = o.Meta.Ids[i]
		e.State, _ = nj.birth(clockNs)
		if err := nj.recall(tx, e); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// recall turns the answer of a job that was made into that of one which was not,
// where another has its key.
func (nj *NewJob) recall(tx *state.Tx, e *Enqueued) error {
	k, has := nj.key()
	if !has {
		return nil
	}
	if _, was, err := wasCreated(tx, e.Id); err != nil || was {
		return err
	}
	id, locked, err := tx.Locked(k.kind, k.queue, k.text)
	if err != nil || !locked {
		return err
	}
	holder, err := tx.Job(id)
	if err != nil {
		return err
	}
	e.Id, e.State, e.Found = holder.Id, holder.State, k.found()
	return nil
}
