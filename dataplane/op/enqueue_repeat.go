package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// repeats reports whether a server may propose the op again on its own. An op with a debounce key may not be
// repeated, because no record shows that it postponed a job. A repeat would postpone the job again and
// overwrite the changes of another client, or would create a second job once the first runs.
func (o *Enqueue) repeats() bool {
	for _, nj := range o.Jobs {
		if nj.Options.GetDebounceKey() != "" {
			return false
		}
	}
	return true
}

// earlier returns the answer of this op if it was applied before. It returns nil if no job and no batch that
// the op created shows this. Some jobs may be gone. Any job that is left, on this shard or moved to another,
// tells when the op was applied.
//
// If another job held the key of one of the op's jobs, the op did not create that job. The key's lock shows
// this as long as the other job holds the key. A lock that has become free shows nothing: the op's job then
// counts as created and gone, and is answered with its own id. If a job that was created is gone and another
// has taken its key since, the answer names that other job. An op that created neither a job nor a batch
// leaves nothing. It is applied again and finds the present holders of the keys.
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

// wasCreated returns the time at which the job with an id was created, if the job is here or has moved to
// another shard.
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

// recall rebuilds the answer that the op gave when it was applied at clockNs, as far as the store still shows
// it.
func (o *Enqueue) recall(tx *state.Tx, clockNs int64) (*EnqueueResult, error) {
	r := o.newResult()
	for i, nj := range o.Jobs {
		e := r.Jobs[i]
		e.Id = o.Meta.Ids[i]
		e.State, _ = nj.initialState(clockNs)
		if err := nj.recall(tx, e); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// recall changes the answer for a job that is not here and has not moved: if another job holds its key, the
// answer becomes that holder with its present state.
func (nj *NewJob) recall(tx *state.Tx, e *Enqueued) error {
	k, has := nj.jobKey()
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
