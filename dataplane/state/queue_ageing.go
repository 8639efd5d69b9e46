package state

import "github.com/corvo/corvo/dataplane/job"

// With ageing, a job that has waited for the queue's ageing time counts as one priority higher, and after
// half that time as half a priority higher. Waiting counts from the job's creation, which its id holds, so a
// retry does not start it again. Two waiting jobs age at the same speed, so their order depends on the jobs
// and the setting but not on the clock, and no record has to move as time passes.

// mostUrgent compares the first ready job of each priority of a fairness key and returns the one with the
// highest aged priority, and among equals the one with the lowest number.
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
