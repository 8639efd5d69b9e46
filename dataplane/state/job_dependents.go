package state

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

var dependentsKind = rowKind[*Dependents]{
	name:   "dependents",
	prefix: prefixDependents,
	count:  func(h *Head) *uint64 { return &h.DependentsRecords },
	timer: func(d *Dependents) timer {
		if d.SettledNs == 0 {
			return timer{}
		}
		return timer{TimerDependents, max(d.SettledNs, d.RetryNs)}
	},
}

// waiterName identifies one job that waits for another.
type waiterName struct{ id, waiter job.ID }

// WaiterRow is a waiting job and the shard it lies on.
type WaiterRow struct {
	ID    job.ID
	Shard uint32
}

// Dependents returns the record of the jobs that wait for a job, or nil if none waits. The op may change
// everything but the count in place and must then call PutDependents.
func (tx *Tx) Dependents(id job.ID) (*Dependents, error) {
	return tx.dependents.get(tx, &dependentsKind, id)
}

// PutDependents stores the record of the jobs that wait for a job; nil removes it when none waits any more.
func (tx *Tx) PutDependents(id job.ID, d *Dependents) error {
	return tx.dependents.put(tx, &dependentsKind, id, d)
}

// dependentsSettled reports whether the jobs that wait for a job are about to be notified, or none waits.
func (tx *Tx) dependentsSettled(id job.ID) bool {
	d, err := tx.Dependents(id)
	return err == nil && (d == nil || d.Settled != job.State_STATE_UNSPECIFIED)
}

// AddWaiter makes waiter, a job of the given shard, wait for the job with the id, and counts it in the
// Dependents record. A job that waits already is not counted again.
func (tx *Tx) AddWaiter(id, waiter job.ID, shard uint32) error {
	d, err := tx.Dependents(id)
	if err != nil {
		return err
	}
	known, err := tx.hasWaiter(id, waiter)
	if err != nil || known {
		return err
	}
	if d == nil {
		d = &Dependents{}
	}
	d.Waiters++
	tx.head.WaiterRecords++
	tx.setWaiter(id, waiter, true)
	tx.key = appendWaiterKey(tx.key[:0], id, waiter)
	if err := put(tx.batch, tx.key, &Waiter{Shard: shard}); err != nil {
		return tx.fail(fmt.Errorf("job %s waits for %s: %w", waiter, id, err))
	}
	return tx.PutDependents(id, d)
}

// RemoveWaiter removes one waiting job, and the Dependents record together with the last one. It does nothing
// if the job does not wait.
func (tx *Tx) RemoveWaiter(id, waiter job.ID) error {
	known, err := tx.hasWaiter(id, waiter)
	if err != nil || !known {
		return err
	}
	d, err := tx.Dependents(id)
	if err == nil && (d == nil || d.Waiters == 0) {
		err = tx.fail(fmt.Errorf("job %s waits for %s, which counts nobody", waiter, id))
	}
	if err != nil {
		return err
	}
	d.Waiters--
	tx.head.WaiterRecords--
	tx.setWaiter(id, waiter, false)
	tx.key = appendWaiterKey(tx.key[:0], id, waiter)
	if err := tx.batch.Delete(tx.key, nil); err != nil {
		return tx.fail(err)
	}
	if d.Waiters == 0 {
		d = nil
	}
	return tx.PutDependents(id, d)
}

func (tx *Tx) setWaiter(id, waiter job.ID, waits bool) {
	if tx.waiters == nil {
		tx.waiters = map[waiterName]bool{}
	}
	tx.waiters[waiterName{id, waiter}] = waits
}

func (tx *Tx) hasWaiter(id, waiter job.ID) (bool, error) {
	if waits, ok := tx.waiters[waiterName{id, waiter}]; ok {
		return waits, nil
	}
	if tx.head.WaiterRecords == 0 {
		return false, nil
	}
	found, err := get(tx.s.gen.db, appendWaiterKey(nil, id, waiter), &Waiter{})
	if err != nil {
		return false, tx.fail(err)
	}
	return found, nil
}

// Waiters yields the jobs that waited for a job before the entry and still do, in order of their ids. The op
// may remove each as it is yielded. Jobs that the entry itself added are left to a later entry.
func (tx *Tx) Waiters(id job.ID) iter.Seq2[WaiterRow, error] {
	return func(yield func(WaiterRow, error) bool) {
		for row, err := range scanWaiters(tx.s.gen.db, id) {
			if err != nil {
				yield(WaiterRow{}, tx.fail(fmt.Errorf("read who waits for job %s: %w", id, err)))
				return
			}
			if waits, changed := tx.waiters[waiterName{id, row.ID}]; changed && !waits {
				continue
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Dependents returns the record of the jobs that wait for a job as of the last commit, or nil if none waits.
func (s *Store) Dependents(id job.ID) (*Dependents, error) {
	return committed(s, func(r source) (*Dependents, error) { return readRow[Dependents](r, &dependentsKind, id) })
}

func compareIDs(a, b job.ID) int { return bytes.Compare(a[:], b[:]) }

func scanWaiters(r source, id job.ID) iter.Seq2[WaiterRow, error] {
	return func(yield func(WaiterRow, error) bool) {
		lower := appendIDKey(nil, prefixWaiter, id)
		upper := append(appendWaiterKey(nil, id, job.ID(bytes.Repeat([]byte{0xff}, len(id)))), 0)
		for kv, err := range scanPairs(r, lower, upper) {
			row, rec := WaiterRow{}, &Waiter{}
			if err == nil {
				_, row.ID, err = decodeWaiterKey(kv.Key)
			}
			if err == nil {
				err = decode(kv, rec)
			}
			row.Shard = rec.Shard
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// checkDependents checks the counts of waiting jobs, and that each job that is waited for is marked so.
func (c *checker) checkDependents() error {
	counted, awaited := map[job.ID]uint64{}, uint64(0)
	err := checkRows[Dependents](c, &dependentsKind, func(id [16]byte, d *Dependents) error {
		counted[id] = d.Waiters
		if d.SettledNs != 0 {
			return nil
		}
		awaited++
		j, err := c.v.Job(id)
		if err == nil && !j.GetHasDependents() {
			c.report("%d jobs wait for %s to settle, which does not know it", d.Waiters, job.ID(id))
		}
		return err
	})
	if err != nil {
		return err
	}
	if awaited != c.awaited {
		c.report("%d jobs have dependents, %d are waited for", c.awaited, awaited)
	}
	n, found := uint64(0), map[job.ID]uint64{}
	for key, err := range scanKeys(c.v.snap, []byte{prefixWaiter}, afterPrefix(prefixWaiter)) {
		if err != nil {
			return err
		}
		id, _, err := decodeWaiterKey(key)
		if err != nil {
			return err
		}
		n++
		found[id]++
	}
	if n != c.v.head.WaiterRecords {
		c.report("%d jobs wait for others, the head says %d", n, c.v.head.WaiterRecords)
	}
	if !maps.Equal(counted, found) {
		for _, id := range slices.SortedFunc(maps.Keys(counted), compareIDs) {
			if counted[id] != found[id] {
				c.report("%d jobs wait for %s, it counts %d", found[id], id, counted[id])
			}
		}
		for _, id := range slices.SortedFunc(maps.Keys(found), compareIDs) {
			if _, ok := counted[id]; !ok {
				c.report("%d jobs wait for %s, which counts none", found[id], id)
			}
		}
	}
	return nil
}

// Awaited returns the jobs of this shard that the waiter waits for, in order of their ids. It reads at most
// `most` waiting records of the shard. If there are more, whole is false and the list may lack jobs.
func (v *Snapshot) Awaited(waiter job.ID, most int) (ids []job.ID, whole bool, err error) {
	if v.head.WaiterRecords == 0 {
		return nil, true, nil
	}
	seen := 0
	for key, err := range scanKeys(v.snap, []byte{prefixWaiter}, afterPrefix(prefixWaiter)) {
		if err != nil {
			return nil, false, err
		}
		if seen++; seen > most {
			return ids, false, nil
		}
		id, by, err := decodeWaiterKey(key)
		if err != nil {
			return nil, false, err
		}
		if by == waiter {
			ids = append(ids, id)
		}
	}
	return ids, true, nil
}
