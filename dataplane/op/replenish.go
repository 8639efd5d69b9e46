package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Replenish makes the store look again at queues that their rate limits have blocked. The number of fetchable
// jobs follows from the entry's clock, so all replicas find one number and wake that many waiting fetches.
// Replenish changes no record of a queue and leaves queues that are unknown or still blocked as they are.

// Validate refuses an op that no state could accept.
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
