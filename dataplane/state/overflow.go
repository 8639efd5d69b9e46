package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// NextToDrop is the queue's oldest pending job of the least urgent priority that
// has any; ok is false when none is pending. PutJob with another state removes it.
func (tx *Tx) NextToDrop(name string) (id job.ID, ok bool, err error) {
	q := tx.s.queues[name]
	if q == nil || q.rec.InState[job.Pending] == 0 {
		return job.ID{}, false, nil
	}
	for priority := job.Priorities - 1; priority >= 0; priority-- {
		l := &q.heads.levels[priority]
		if len(l.list) == 0 && l.more {
			if err := tx.refill(q, uint8(priority), l); err != nil {
				return job.ID{}, false, tx.fail(fmt.Errorf("ready jobs of queue %q: %w", name, err))
			}
		}
		if len(l.list) > 0 {
			return l.list[0].id, true, nil
		}
	}
	return job.ID{}, false, tx.fail(fmt.Errorf("queue %q counts %d pending jobs and none is ready",
		name, q.rec.InState[job.Pending]))
}
