package op

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// DeleteQueue removes a queue, its settings, its totals and its jobs. A queue without jobs is gone at once. A
// queue with jobs takes no more from clients and gives none to workers, and SweepQueue, which the leader's
// duty proposes, removes its jobs over many entries. The last SweepQueue removes the queue. Active jobs are
// cancelled and go when their attempts end. Jobs that other shards send to the queue meanwhile, and jobs that
// follow from others, are removed too.
//
// The op is refused with NOT_FOUND for an unknown queue, with PRECONDITION_FAILED if the queue's settings
// have another version than the client saw, and with STATE_CONFLICT if the client wants only settled jobs
// removed and some have not settled. Fetches that wait on the name go on waiting: a later queue with the name
// is a new one.

// Validate refuses an op that no state could accept.
func (o *DeleteQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckStoredQueueName(o.Queue))
	return p.err()
}

// Apply removes the queue, or begins its removal.
func (o *DeleteQueue) Apply(tx *state.Tx) (*DeleteQueueResult, error) {
	q := tx.Queue(o.Queue)
	if q == nil {
		return nil, noQueue(o.Queue)
	}
	if err := queueAt(q, o.IfVersion); err != nil {
		return nil, err
	}
	switch {
	case o.IfSettled && unsettledOf(q) != "":
		return nil, api.Errorf(api.StateConflict, "queue %s has jobs that have not settled (%s), and they would go with it: let them be worked off, or clear the queue", o.Queue, unsettledOf(q))
	case jobsOf(q) == "":
		if err := tx.DeleteQueue(o.Queue); err != nil {
			return nil, err
		}
		return &DeleteQueueResult{}, nil
	case !q.Deleting:
		q = tx.EnsureQueue(o.Queue)
		q.Deleting = true
		tx.PutQueue(q, state.EventType_EVENT_QUEUE_CHANGED)
	}
	return &DeleteQueueResult{Deleting: true}, nil
}

// jobsOf returns the number of a queue's jobs by state, as in "2 pending, 1 active", empty for none.
func jobsOf(q *state.Queue) string { return countsOf(q, func(job.State) bool { return true }) }

// unsettledOf returns the number of the jobs that have not settled, in the form of jobsOf.
func unsettledOf(q *state.Queue) string {
	return countsOf(q, func(s job.State) bool { return !s.Settled() })
}

func countsOf(q *state.Queue, counted func(job.State) bool) string {
	var counts []string
	for s, n := range q.InState {
		if n > 0 && counted(job.State(s)) {
			counts = append(counts, fmt.Sprintf("%d %s", n, job.State(s).Word()))
		}
	}
	return strings.Join(counts, ", ")
}
