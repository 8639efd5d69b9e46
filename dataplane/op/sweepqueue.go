package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SweepQueue removes some jobs of a queue that is being cleared or deleted and, with `last`, ends the clear
// or removes the queue. The proposer has the ids from a view; Apply checks the jobs again and skips those
// that may stay. A job that has not settled is cancelled first, so that its batch, chain and dependents are
// updated. An active job, which only a deletion removes, goes when its worker lets go of it or its lease
// expires.
//
// Once the entry is full the op removes no more jobs, and the proposer continues with the others. `last`
// counts only if all jobs of the op were looked at. A clear ends only if the queue's clear_below is still
// `below`, the value that the proposer saw. A queue that is being deleted is removed only if it has no jobs
// left.

// Validate refuses an op that no state could accept.
func (o *SweepQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckStoredQueueName(o.Queue))
	switch {
	case len(o.JobIds) > 0:
		p.ids("job_ids", o.JobIds)
	case !o.Last:
		p.add("job_ids", errors.New("is empty; name jobs, or say that they were the last"))
	}
	return p.err()
}

// Apply removes the jobs. It refuses nothing.
func (o *SweepQueue) Apply(tx *state.Tx) (*SweepQueueResult, error) {
	result := &SweepQueueResult{}
	if q := tx.Queue(o.Queue); q == nil || !q.Deleting && q.ClearBelow == 0 {
		return result, nil
	}
	q, last := tx.EnsureQueue(o.Queue), o.Last
	for _, id := range o.JobIds {
		if tx.Full() {
			last = false
			break
		}
		j, err := jobOf(tx, id)
		if err != nil {
			return nil, err
		}
		if j == nil || j.Queue != o.Queue || !q.Deleting && !cleared(q, j) {
			continue
		}
		swept, err := sweep(tx, j)
		if err != nil {
			return nil, err
		}
		if swept {
			result.Removed++
		}
	}
	if !q.Deleting {
		q.Cleared += uint64(result.Removed)
		tx.PutQueue(q)
	}
	if last {
		return result, o.end(tx, q)
	}
	return result, nil
}

// cleared reports whether the clear of a queue removes a job.
func cleared(q *state.Queue, j *job.Job) bool {
	switch j.State {
	case job.Pending, job.Scheduled, job.Retrying:
		return j.Number < q.ClearBelow
	}
	return false
}

// sweep removes a job that is not active. It asks the worker of an active job to stop, once.
func sweep(tx *state.Tx, j *job.Job) (removed bool, err error) {
	switch {
	case j.State.Settled():
		return true, tx.DeleteJob(j, state.EventType_EVENT_DELETED)
	case j.State == job.Active && j.Cancelling && j.Doomed:
		return false, nil
	case j.State == job.Active:
		if err := sweepOn(j, job.OnStop); err != nil {
			return false, err
		}
		j.Cancelling, j.Doomed = true, true
		return false, tx.PutJob(j, state.EventType_EVENT_CANCELLING)
	}
	if err := sweepOn(j, job.OnCancel); err != nil {
		return false, err
	}
	j.Doomed, j.Details().CancelledNs = true, tx.ClockNs()
	return true, settle(tx, j, settlement{}, state.EventType_EVENT_CANCELLED)
}

// sweepOn changes a job's state by an event. It fails if the event is impossible in the job's state.
func sweepOn(j *job.Job, on job.Event) error {
	to, ok := job.Transition(j.State, on)
	if !ok {
		return fmt.Errorf("job %s is %s: it cannot %s", job.ID(j.Id), j.State.Word(), on)
	}
	j.State = to
	return nil
}

// end ends the queue's clear if no later clear has changed its bound, or deletes a queue that is being deleted
// and has no jobs left.
func (o *SweepQueue) end(tx *state.Tx, q *state.Queue) error {
	switch {
	case q.Deleting && o.Below == 0 && jobsOf(q) == "":
		return tx.DeleteQueue(q.Name)
	case !q.Deleting && q.ClearBelow == o.Below:
		q.ClearBelow = 0
		tx.PutQueue(q, state.EventType_EVENT_QUEUE_CLEARED)
	}
	return nil
}
