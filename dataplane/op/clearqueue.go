package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ClearQueue removes the waiting jobs of a queue: the pending, scheduled and retrying jobs that were created
// before the op. There may be any number of them, so the queue's record keeps a bound on their job numbers
// (clear_below), and the leader's duty proposes SweepQueue, which removes them over many entries. A later
// ClearQueue raises the bound. Active and held jobs stay, unless they wait again before the clear has ended.
// Older jobs of other queues of the shard stay too, unless they are moved into this queue before the clear
// has ended.
//
// The op is refused with NOT_FOUND for an unknown queue, and with CONFLICT for a queue that is being deleted,
// because the deletion removes all its jobs.

// Validate refuses an op that no state could accept.
func (o *ClearQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckStoredQueueName(o.Queue))
	return p.err()
}

// Apply begins the clear, or raises the bound of the clear that is running. If no job waits, it changes
// nothing.
func (o *ClearQueue) Apply(tx *state.Tx) (*ClearQueueResult, error) {
	q := tx.Queue(o.Queue)
	if q == nil {
		return nil, noQueue(o.Queue)
	}
	if q.Deleting {
		return nil, beingDeleted(o.Queue)
	}
	result := &ClearQueueResult{Cleared: q.Cleared}
	if q.InState[job.Pending]+q.InState[job.Scheduled]+q.InState[job.Retrying] == 0 {
		return result, nil
	}
	q = tx.EnsureQueue(o.Queue)
	q.ClearBelow = tx.Head().GetNextJobNumber()
	tx.PutQueue(q)
	result.Below = q.ClearBelow
	return result, nil
}

func noQueue(name string) error { return api.Errorf(api.NotFound, "there is no queue %s", name) }

func beingDeleted(name string) error {
	return api.Errorf(api.Conflict, "queue %s is being deleted: wait for the end of the deletion, then create it again", name)
}
