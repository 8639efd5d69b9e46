package state

import "github.com/corvo/corvo/dataplane/job"

// With ageing, a job that has waited as long as it says counts as one priority higher,
// and one that waited half as long as half of one. How long a job has waited is
// counted from its creation, which is in its id: a retry does not begin anew. What is
// compared does not change with time: of two jobs that wait, both grow older at once.
// So the order follows from the jobs alone, and nothing has to be moved.

// mostUrgent is the ready job of a fairness key that has the highest priority by now;
// of several the one with the lowest number.
func (tx *Tx) mostUrgent(q *queue, heads *heads, key string) (id job.ID, ok bool, err error) {
	var best head
	var bestAt int64
	for priority := range heads.levels {
		h, found, err := tx.oldestReady(q, heads, key, priority)
		if err != nil {
			return job.ID{}, false, err
		}
		if !found {
			continue
		}
		if at := int64(priority)*q.rec.AgeingMs + h.id.UnixMs(); !ok || at < bestAt || at == bestAt && h.number < best.number {
			best, bestAt, ok = h, at, true
		}
	}
	return best.id, ok, nil
}
