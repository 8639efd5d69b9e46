package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Replenish has the store look again at queues that their rate limits have kept:
// how many of their jobs are fetchable follows from the entry's clock, so each
// replica finds the same and wakes as many polls. It changes nothing of a queue.
// Those that are unknown, or not free after all, are left as they are.

// Number is Replenish's number in the log.
func (*Replenish) Number() entry.Number { return numReplenish }

// Class is Replenish's place among waiting proposals.
func (*Replenish) Class() pipeline.Class { return table[numReplenish].Class }

// Validate refuses what no state could accept.
func (o *Replenish) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("queues", len(o.Queues), job.MaxDutyItems)
	if len(o.Queues) <= job.MaxDutyItems {
		for i, queue := range o.Queues {
			p.item("queues", i, "", job.CheckStoredQueueName(queue))
		}
	}
	return p.err()
}

// Apply touches the queues. It refuses nothing.
func (o *Replenish) Apply(tx *state.Tx) (*ReplenishResult, error) {
	for _, name := range o.Queues {
		if q := tx.Queue(name); q != nil {
			tx.PutQueue(q)
		}
	}
	return &ReplenishResult{}, nil
}
