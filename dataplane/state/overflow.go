package state

import "github.com/corvo/corvo/dataplane/job"

// NextToDrop is the queue's oldest ready job of the least urgent priority that has
// any; ok is false when none is ready. Jobs that a gate keeps are not dropped: they
// lie by gate and not by queue, and what keeps them is nobody's backlog. Of a queue with
// lanes it is that of the lane in which the most wait: who fills the queue makes room in
// it. PutJob with
// another state removes it.
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
