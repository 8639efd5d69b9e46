package state

import "github.com/corvo/corvo/dataplane/job"

// NextToDrop returns the oldest ready job of the least urgent priority that has ready jobs; ok is false if no
// job is ready. In a queue with lanes it considers only the lane with the most ready jobs, so that the tenant
// who fills the queue makes room in it. Jobs at a gate are never dropped: they are indexed by gate, and their
// number is not the queue's backlog. NextToDrop does not drop the job: a PutJob that gives the job another
// state does.
func (tx *Tx) NextToDrop(name string) (id job.ID, ok bool, err error) {
	q := tx.s.queues[name]
	if q == nil || q.rec.Ready() == 0 {
		return job.ID{}, false, nil
	}
	heads, key := &q.heads, ""
	if q.lanes != nil {
		l := q.lanes.longestLane()
		heads, key = l.heads, l.rec.Key
	}
	for priority := job.Priorities - 1; priority >= 0; priority-- {
		if h, ok, err := tx.oldestReady(q, heads, key, priority); ok || err != nil {
			return h.id, ok, err
		}
	}
	return job.ID{}, false, tx.noneReady(q)
}
