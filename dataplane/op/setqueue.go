package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// SetQueue changes the settings it names and creates the queue when it is new.
// Settings bind from the next fetch on: a queue paused, or lowered below what is
// active, takes no job from its worker.

// Number is SetQueue's number in the log.
func (*SetQueue) Number() entry.Number { return numSetQueue }

// Class is SetQueue's place among waiting proposals.
func (*SetQueue) Class() pipeline.Class { return table[numSetQueue].Class }

// Validate refuses what no state could accept.
func (o *SetQueue) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("queue", job.CheckQueueName(o.Queue))
	if n := o.GetMaxConcurrency(); n > job.MaxConcurrency {
		p.add("max_concurrency", fmt.Errorf("is %d; at most %d are allowed, 0 is unlimited", n, job.MaxConcurrency))
	}
	return p.err()
}

// Apply changes the settings. It refuses a queue too many.
func (o *SetQueue) Apply(tx *state.Tx) (*SetQueueResult, error) {
	created := tx.Queue(o.Queue) == nil
	if created {
		if err := admitQueues(tx, 1); err != nil {
			return nil, err
		}
	}
	q := tx.EnsureQueue(o.Queue)
	events := make([]state.EventType, 0, 2)
	limited := o.MaxConcurrency != nil && *o.MaxConcurrency != q.MaxConcurrency
	if limited {
		q.MaxConcurrency = *o.MaxConcurrency
	}
	if created || limited {
		events = append(events, state.EventType_EVENT_QUEUE_CHANGED)
	}
	if o.Paused != nil && *o.Paused != q.Paused {
		q.Paused = *o.Paused
		event := state.EventType_EVENT_QUEUE_RESUMED
		if q.Paused {
			event = state.EventType_EVENT_QUEUE_PAUSED
		}
		events = append(events, event)
	}
	if len(events) > 0 {
		tx.PutQueue(q, events...)
	}
	return &SetQueueResult{}, nil
}
