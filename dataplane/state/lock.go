package state

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// LockKind is the kind of a lock. The values are part of keys, so they are permanent.
type LockKind uint8

// The kinds of locks. The first two derive from jobs, see derive.
const (
	LockUnique       LockKind = 0 // a unique key of a queue, held by one job
	LockDebounce     LockKind = 1 // a debounce key of a queue, held by one scheduled job
	LockScheduleName LockKind = 2 // the name of a schedule; in no queue

	jobLocks = 2 // kinds that jobs hold
)

type lockName struct {
	kind  LockKind
	queue string
	text  string
}

// lock is a lock that the entry has read. Unlike a job's other derived keys, a lock may go from one job to
// another within one entry. So its owner lies here and is written at the end, whatever the order of the jobs.
type lock struct {
	name   lockName
	stored *Lock // nil if free
	now    *Lock
}

// Locked returns the id of the job or schedule that holds a key in a queue, as the entry's earlier ops left
// it. For the name of a schedule, queue is empty. ok is false if the key is free.
func (tx *Tx) Locked(kind LockKind, queue, text string) (id job.ID, ok bool, err error) {
	l, err := tx.lock(lockName{kind, queue, text})
	if err != nil || l.now == nil {
		return job.ID{}, false, err
	}
	return job.ID(l.now.JobId), true, nil
}

func (tx *Tx) lock(name lockName) (*lock, error) {
	if l := tx.locks[name]; l != nil {
		return l, nil
	}
	l := &lock{name: name}
	if tx.head.LockRecords > 0 {
		rec := &Lock{}
		tx.key = appendLockKey(tx.key[:0], name)
		found, err := get(tx.s.gen.db, tx.key, rec)
		if err == nil && found {
			_, err = job.IDFromBytes(rec.JobId)
		}
		if err != nil {
			return nil, tx.fail(fmt.Errorf("lock %q of queue %q: %w", name.text, name.queue, err))
		}
		if found {
			l.stored, l.now = rec, rec
		}
	}
	if tx.locks == nil {
		tx.locks = map[lockName]*lock{}
	}
	tx.locks[name] = l
	tx.lockOrder = append(tx.lockOrder, l)
	return l, nil
}

// take gives a free lock an owner.
func (tx *Tx) take(name lockName, id [16]byte) error {
	l, err := tx.lock(name)
	if err != nil {
		return err
	}
	if l.now != nil {
		return fmt.Errorf("%q of queue %q is taken by %s", name.text, name.queue, job.ID(l.now.JobId))
	}
	l.now = &Lock{JobId: id[:]}
	tx.head.LockRecords++
	return nil
}

// release frees a lock that its owner holds.
func (tx *Tx) release(name lockName, id [16]byte) error {
	l, err := tx.lock(name)
	if err != nil {
		return err
	}
	if l.now == nil || string(l.now.JobId) != string(id[:]) {
		return fmt.Errorf("%q of queue %q is not its own", name.text, name.queue)
	}
	l.now = nil
	tx.head.LockRecords--
	return nil
}

func (tx *Tx) moveLocks(h *entryJob, to index) error {
	was := h.now
	if was.locks == to.locks && (was.queue == to.queue || was.locks == [jobLocks]string{}) {
		return nil
	}
	for kind := range LockKind(jobLocks) {
		from, next := was.locks[kind], to.locks[kind]
		if from == next && was.queue == to.queue {
			continue
		}
		if from != "" {
			if err := tx.release(lockName{kind, was.queue, from}, h.id); err != nil {
				return err
			}
		}
		if next != "" {
			if err := tx.take(lockName{kind, to.queue, next}, h.id); err != nil {
				return err
			}
		}
	}
	rec := h.queue.rec
	if was.locks[LockUnique] != "" {
		rec.UniqueLocks--
	}
	if to.locks[LockUnique] != "" {
		rec.UniqueLocks++
	}
	tx.touch(h.queue)
	return nil
}

// dropTakenLocks makes a job that comes into a queue give up each key that another job holds there.
func (tx *Tx) dropTakenLocks(j *job.Job) error {
	ix, err := derive(j)
	if err != nil {
		return err
	}
	for kind, text := range ix.locks {
		if text == "" {
			continue
		}
		_, taken, err := tx.Locked(LockKind(kind), j.Queue, text)
		if err != nil {
			return err
		}
		switch {
		case !taken:
		case LockKind(kind) == LockUnique:
			j.Details().UniqueExpiresNs = 0
		case LockKind(kind) == LockDebounce:
			j.Opt().DebounceKey = ""
		}
	}
	return nil
}

// encodeLocks writes the locks whose owner has changed.
func (tx *Tx) encodeLocks() error {
	for _, l := range tx.lockOrder {
		if l.stored == l.now {
			continue
		}
		tx.key = appendLockKey(tx.key[:0], l.name)
		var err error
		switch {
		case l.now != nil:
			err = put(tx.batch, tx.key, l.now)
		case l.stored != nil:
			err = tx.batch.Delete(tx.key, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
