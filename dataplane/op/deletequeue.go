package op

import (
	"fmt"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// DeleteQueue removes a queue, its settings, its totals and its jobs. One without
// jobs is gone at once. Else the queue takes no more jobs and gives none out, and
// SweepQueue removes those it has, over many entries, proposed by the leader's
// duty; the last one removes the queue. Active jobs are cancelled, and go when
// their workers let go. What others send it meanwhile goes as well.
//
// It is refused with NOT_FOUND where there is no such queue, with PRECONDITION_FAILED
// where its settings are not those the client has seen, and with STATE_CONFLICT where
// it is to go only if its jobs have settled, and some have not. Polls that wait
// for the name go on waiting: a queue that gets it later is a new one.

// Number is DeleteQueue's number in the log.
func (*DeleteQueue) Number() entry.Number { return numDeleteQueue }

// Class is DeleteQueue's place among waiting proposals.
func (*DeleteQueue) Class() pipeline.Class { return table[numDeleteQueue].Class }

// Validate refuses what no state could accept.
func (o *DeleteQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckStoredQueueName(o.Queue))
	return p.err()
}

// Apply removes the queue, or begins to.
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

// jobsOf is a queue's jobs by state, as "2 pending, 1 active"; empty for none.
func jobsOf(q *state.Queue) string { return countsOf(q, func(job.State) bool { return true }) }

// unsettledOf is jobsOf without those that have ended.
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
