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

// DeleteQueue removes a queue, its settings and its totals. It is refused with
// STATE_CONFLICT while there is a job in it, in whatever state, and with NOT_FOUND
// where there is no such queue. Polls that wait for the name go on waiting: a
// queue that gets it later is a new one.

// Number is DeleteQueue's number in the log.
func (*DeleteQueue) Number() entry.Number { return numDeleteQueue }

// Class is DeleteQueue's place among waiting proposals.
func (*DeleteQueue) Class() pipeline.Class { return table[numDeleteQueue].Class }

// Validate refuses what no state could accept.
func (o *DeleteQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckQueueName(o.Queue))
	return p.err()
}

// Apply removes the queue.
func (o *DeleteQueue) Apply(tx *state.Tx) (*DeleteQueueResult, error) {
	q := tx.Queue(o.Queue)
	if q == nil {
		return nil, api.Errorf(api.NotFound, "there is no queue %s", o.Queue)
	}
	if counts := jobsOf(q); counts != "" {
		return nil, api.Errorf(api.StateConflict, "queue %s still has jobs (%s): only a queue without any can be deleted", o.Queue, counts)
	}
	if err := tx.DeleteQueue(o.Queue); err != nil {
		return nil, err
	}
	return &DeleteQueueResult{}, nil
}

// jobsOf is a queue's jobs by state, as "2 pending, 1 active"; empty for none.
func jobsOf(q *state.Queue) string {
	var counts []string
	for s, n := range q.InState {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, job.State(s).Word()))
		}
	}
	return strings.Join(counts, ", ")
}
