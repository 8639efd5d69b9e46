package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// ClearQueue has the jobs removed that wait in a queue: pending, scheduled and
// retrying ones that were created before it. There may be any number of them, so
// SweepQueue removes them over many entries, proposed by the leader's duty; a later
// ClearQueue meanwhile raises the bound. Jobs that are active or held stay, unless
// they come to wait again before the clear has ended; so do older jobs of other
// queues, unless they are moved here before that.
//
// It is refused with NOT_FOUND where there is no such queue, and with CONFLICT
// while the queue is being deleted, which removes them all.

// Number is ClearQueue's number in the log.
func (*ClearQueue) Number() entry.Number { return numClearQueue }

// Class is ClearQueue's place among waiting proposals.
func (*ClearQueue) Class() pipeline.Class { return table[numClearQueue].Class }

// Validate refuses what no state could accept.
func (o *ClearQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckStoredQueueName(o.Queue))
	return p.err()
}

// Apply begins the clear. Where nothing waits it has ended at once.
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
	return api.Errorf(api.Conflict, "queue %s is being deleted: wait until it is gone; it may be made anew then", name)
}
