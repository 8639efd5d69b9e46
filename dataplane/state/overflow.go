package state

import "github.com/corvo/corvo/dataplane/job"

// NextToDrop is the queue's oldest pending job of the least urgent priority that
// has any; ok is false when none is pending. PutJob with another state removes it.
func (tx *Tx) NextToDrop(name string) (id job.ID, ok bool, err error) {
	q := tx.s.queues[name]
	if q == nil || q.rec.InState[job.Pending] == 0 {
		return job.ID{}, false, nil
	}
	for priority := job.Priorities - 1; priority >= 0; priority-- {
		if id, ok, err = tx.oldestReady(q, priority); ok || err != nil {
			return id, ok, err
		}
	}
	return job.ID{}, false, tx.noneReady(q)
}
