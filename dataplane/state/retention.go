package state

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
)

// A settled job is removed when its retention is over. The retention is a setting that may change at any
// time, for any number of jobs, so no record says when a job goes. For each queue and state, the store has a
// list of the settled jobs by the time they settled. Memory has, for each list, a lower bound of its oldest
// time, and how long its jobs are kept. A changed retention is in force with the commit that changes it, for
// settled jobs too, and rewrites none of them.
//
// A stored time of removal in each job was rejected. After a change of the retention, an op would have to
// write every settled job of the queue, or of the namespace, page by page before the first one goes, and the
// queue would need a mark of that op's progress.

// settledStates is the number of states in which a job may settle.
const settledStates = int(job.Cancelled-job.Completed) + 1

// settledList describes the settled jobs of a queue in one state.
type settledList struct {
	oldestNs int64  // lower bound of the settle times in the list; latest = the list is empty
	addedNs  int64  // lower bound of the settle times of the jobs added since the list was last read
	keepNs   int64  // retention; negative = for ever
	settled  uint64 // jobs added since SettledWhereDue was last called
}

// dueNs returns the time at which the retention of the list's oldest job is over, or an earlier time; latest
// if none ends.
func (l *settledList) dueNs() int64 {
	if l.oldestNs == latest || l.keepNs < 0 {
		return latest
	}
	return l.oldestNs + l.keepNs
}

// retentions describes the settled jobs of all queues, as of the last commit.
type retentions struct {
	reading sync.Mutex // held by the one reader that may raise oldestNs; taken before mu

	mu        sync.Mutex
	namespace *job.Retention // of queues without a retention of their own; never changed in place
	queues    map[string]*[settledStates]settledList
	nextNs    int64 // no retention ends earlier
}

// reset computes the lists of queues that were read from a store.
func (r *retentions) reset(queues map[string]*queue, namespace *job.Retention) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.namespace, r.queues, r.nextNs = namespace, map[string]*[settledStates]settledList{}, latest
	for name, q := range queues {
		lists := new([settledStates]settledList)
		any := false
		for i := range lists {
			lists[i].oldestNs = latest
			if q.rec.InState[int(job.Completed)+i] > 0 {
				lists[i].oldestNs, any = math.MinInt64, true // the first read finds out
			}
		}
		if any {
			r.queues[name] = lists
			r.keep(q.rec, lists)
		}
	}
}

// keep gives the lists of a queue the retention that the queue has now; mu is held.
func (r *retentions) keep(rec *Queue, lists *[settledStates]settledList) {
	for i := range lists {
		l := &lists[i]
		l.keepNs = int64(job.Kept(job.Completed+job.State(i), rec.Retention, r.namespace))
		r.nextNs = min(r.nextNs, l.dueNs())
	}
}

// publishRetentions adds the jobs that the entry has settled, and applies the retentions that it has changed.
func (tx *Tx) publishRetentions() {
	r := &tx.s.retentions
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.nextNs
	for _, q := range tx.deleted {
		delete(r.queues, q.rec.Name)
	}
	for _, q := range tx.queues {
		r.note(q)
	}
	// SetSettings replaces the retention and never changes it in place.
	if namespace := tx.head.GetSettings().GetRetention(); namespace != r.namespace {
		r.namespace = namespace
		for name, lists := range r.queues {
			r.keep(tx.s.queues[name].rec, lists)
		}
	}
	if r.nextNs < before {
		tx.retentionNs = r.nextNs
	}
}

// note updates the lists of a queue that the entry touched; mu is held.
func (r *retentions) note(q *queue) {
	lists := r.queues[q.rec.Name]
	if lists == nil {
		if q.settledNs == ([settledStates]int64{}) {
			return
		}
		lists = new([settledStates]settledList)
		for i := range lists {
			lists[i].oldestNs = latest
		}
		r.queues[q.rec.Name] = lists
	}
	for i, ns := range q.settledNs {
		if ns != 0 {
			lists[i].oldestNs, lists[i].addedNs = min(lists[i].oldestNs, ns), min(lists[i].addedNs, ns)
		}
	}
	for i, n := range q.settled {
		lists[i].settled += n
	}
	q.settledNs, q.settled = [settledStates]int64{}, [settledStates]uint64{}
	r.keep(q.rec, lists)
}

// moveSettled moves the key of a settled job in the index of its queue.
func (tx *Tx) moveSettled(h *entryJob) error {
	was, is := h.stored, h.now
	if was.settled == is.settled && was.state == is.state && was.queue == is.queue {
		return nil
	}
	if was.settled != 0 {
		tx.key = appendSettledKey(tx.key[:0], was.queue, was.state, was.settled, h.id)
		if err := tx.batch.SingleDelete(tx.key, nil); err != nil {
			return err
		}
	}
	if is.settled == 0 {
		return nil
	}
	list := is.state - job.Completed
	first := &h.queue.settledNs[list]
	if *first == 0 || is.settled < *first {
		*first = is.settled
	}
	h.queue.settled[list]++
	tx.key = appendSettledKey(tx.key[:0], is.queue, is.state, is.settled, h.id)
	return tx.batch.Set(tx.key, nil, nil)
}

// RetentionOver reports whether a job has settled and its retention is over. The entry must have read the
// job. The queue's current retention decides, or the namespace's if the queue has none. A job that keeps its
// unique key is kept until the key is released, because without the job another could take the key.
func (tx *Tx) RetentionOver(j *job.Job) (bool, error) {
	ix, err := derive(j)
	if err != nil || ix.settled == 0 {
		return false, err
	}
	kept := int64(job.Kept(j.State, tx.Queue(j.Queue).GetRetention(), tx.head.GetSettings().GetRetention()))
	return kept >= 0 && ix.settled+kept <= tx.head.ClockNs, nil
}

// SettledWhereDue counts the jobs that have settled since its last call. It counts only the lists that may
// hold a job due at nowNs, because a busy queue that keeps its jobs for long must not hasten the removal of
// others. It counts every job of such a list, because in the long run as many of them become due as settle.
func (s *Store) SettledWhereDue(nowNs int64) (n uint64) {
	s.retentions.mu.Lock()
	defer s.retentions.mu.Unlock()
	for _, lists := range s.retentions.queues {
		for i := range lists {
			l := &lists[i]
			if l.dueNs() <= nowNs {
				n += l.settled
			}
			l.settled = 0
		}
	}
	return n
}

// dueList is a list whose oldest job's retention may be over.
type dueList struct {
	queue string
	state job.State
	list  *settledList
	settledList
}

// RetentionDue lists up to limit jobs whose retention is over at nowNs. It returns the same jobs again until
// an entry removes them. nextNs is the earliest time at which any retention may be over, or math.MaxInt64 if
// none ends. It is not after nowNs if the call lists a job or may have left a due one.
func (s *Store) RetentionDue(nowNs int64, limit int) (ids [][16]byte, nextNs int64, err error) {
	s.retentions.reading.Lock()
	defer s.retentions.reading.Unlock()
	s.mu.RLock() // Restore must not replace the lists meanwhile
	defer s.mu.RUnlock()
	if s.closed {
		return nil, latest, errClosed
	}
	for _, l := range s.retentions.due(nowNs, limit) {
		if len(ids) == limit {
			break
		}
		if ids, err = s.readSettled(l, nowNs, limit, ids); err != nil {
			return nil, latest, err
		}
	}
	return ids, s.retentions.next(nowNs), nil
}

// due returns up to limit lists whose oldest job may be due, the longest due first.
func (r *retentions) due(nowNs int64, limit int) []dueList {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nextNs > nowNs {
		return nil
	}
	var all []dueList
	for name, lists := range r.queues {
		for i := range lists {
			if l := &lists[i]; l.dueNs() <= nowNs {
				l.addedNs = latest
				all = append(all, dueList{name, job.Completed + job.State(i), l, *l})
			}
		}
	}
	slices.SortFunc(all, func(a, b dueList) int {
		return cmp.Or(cmp.Compare(a.dueNs(), b.dueNs()), cmp.Compare(a.queue, b.queue), cmp.Compare(a.state, b.state))
	})
	return all[:min(limit, len(all))]
}

// next returns the time at which the first retention is over, or an earlier time; latest if none ends.
func (r *retentions) next(nowNs int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nextNs <= nowNs {
		r.nextNs = latest
		for _, lists := range r.queues {
			for i := range lists {
				r.nextNs = min(r.nextNs, lists[i].dueNs())
			}
		}
	}
	return r.nextNs
}

// readSettled appends the due jobs of a list to ids, up to limit, and notes where the list begins, so that
// the next read does not walk over the tombstones of all jobs ever removed.
func (s *Store) readSettled(l dueList, nowNs int64, limit int, ids [][16]byte) ([][16]byte, error) {
	first := int64(latest)
	for key, err := range scanKeys(s.gen.db, settledBound(l.queue, l.state, l.oldestNs), settledEnd(l.queue, l.state)) {
		if err != nil {
			return nil, err
		}
		settledNs, id, err := decodeSettledKey(key)
		if err != nil {
			return nil, err
		}
		first = min(first, settledNs)
		if settledNs+l.keepNs > nowNs || len(ids) == limit {
			break
		}
		ids = append(ids, id)
	}
	s.retentions.mu.Lock()
	defer s.retentions.mu.Unlock()
	l.list.oldestNs = min(first, l.list.addedNs) // a commit may have added a job at a time that the scan had passed
	return ids, nil
}
