package state

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
)

// recent holds encoded records of one kind by job: those that entries have lately written or are about to
// read. A job goes from its enqueue to its fetch to its ack within moments, and reading it from Pebble each
// time costs more than everything else that an op does. Decoded jobs were rejected, because an op changes a
// job in place, and a change without a put must not be visible to the next op.
//
// A record here equals the stored record as of the last commit, so a reader cannot tell whether it came from
// here or from the store, and replicas need not hold the same records.
//
// There are two pages. When the page being written is full, the content of the other page is dropped and
// writing goes on there. Neither contains pointers, so the garbage collector does not scan them.
type recent struct {
	mu    sync.RWMutex // not needed for the running entry's own reads, because nobody else writes
	bound int          // bytes of a page, including recordCost for each record
	pages [2]page
}

type page struct {
	at    map[job.ID]location
	bytes []byte
}

// leastPage is the initial size of a page in bytes. It is small because many stores of a host are idle.
const leastPage = 4 << 10

// recordCost approximates the bytes that a record takes besides its content, in the map of a page.
const recordCost = 64

// location locates a record in its page. The record is known to equal the stored one as of the entry index.
type location struct {
	from, to uint32
	index    uint64
}

// record returns the record of a job, or nil if it is not here. It is valid until the next put. Only the
// running entry may call it.
func (r *recent) record(id job.ID) []byte {
	record, _ := r.find(id)
	return record
}

func (r *recent) find(id job.ID) (record []byte, index uint64) {
	for i := range r.pages {
		if s, ok := r.pages[i].at[id]; ok {
			return r.pages[i].bytes[s.from:s.to], s.index
		}
	}
	return nil, 0
}

// asOfNow is the asOf of readers that read the current store instead of a snapshot.
const asOfNow = math.MaxUint64

// load decodes the record of a job into m, if it is here and was current as of the entry asOf. Any goroutine
// may call it.
func (r *recent) load(id job.ID, asOf uint64, m record) (found bool, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	record, index := r.find(id)
	if record == nil || index > asOf {
		return false, nil // an older record on the other page need not be the last one before asOf
	}
	return true, m.UnmarshalVT(record)
}

// put keeps a record that is stored as of an entry, or drops the job's record if the new one exceeds a page.
// The caller holds mu.
func (r *recent) put(id job.ID, record []byte, index uint64) {
	if len(record)+recordCost > r.bound {
		r.remove(id)
		return
	}
	young := &r.pages[0]
	if len(young.bytes)+len(record)+recordCost*(len(young.at)+1) > r.bound {
		r.pages[0], r.pages[1] = r.pages[1], r.pages[0]
		clear(young.at)
		young.bytes = young.bytes[:0]
	}
	if young.at == nil {
		young.at = map[job.ID]location{}
	}
	from := len(young.bytes)
	if from+len(record) > cap(young.bytes) {
		// The size doubles, unlike with append, because a page grows to its bound anyhow.
		grown := make([]byte, from, min(max(2*cap(young.bytes), from+len(record), leastPage), r.bound))
		copy(grown, young.bytes)
		young.bytes = grown
	}
	young.bytes = append(young.bytes, record...)
	young.at[id] = location{uint32(from), uint32(len(young.bytes)), index}
}

// remove drops the record of a job. The caller holds mu.
func (r *recent) remove(id job.ID) {
	for i := range r.pages {
		delete(r.pages[i].at, id)
	}
}

// payloadPut is the payload of a job as the entry's batch leaves it.
type payloadPut struct {
	id     job.ID
	record []byte // nil if it was deleted
}

// keepRecent updates the recent records of the entry's jobs and payloads before the commit is published,
// because a snapshot of the commit must find nothing older here. It drops settled jobs, because ops rarely
// read them soon.
func (tx *Tx) keepRecent() {
	jobs, payloads := &tx.s.gen.recentJobs, &tx.s.gen.recentPayloads
	jobs.mu.Lock()
	payloads.mu.Lock()
	for _, p := range tx.payloadsPut {
		if p.record == nil {
			payloads.remove(p.id)
		} else {
			payloads.put(p.id, p.record, tx.head.Index)
		}
	}
	for _, h := range tx.byID {
		switch {
		case h.job == nil || h.now.state.Settled():
			jobs.remove(h.id)
		default:
			jobs.put(h.id, h.record, tx.head.Index)
		}
		h.record = nil
	}
	payloads.mu.Unlock()
	jobs.mu.Unlock()
}

// aheadOf is the number of ready jobs read at once when the first of them is needed.
const aheadOf = 64

// readAhead reads the records of ready jobs that are about to be fetched. With one iterator, in the order of
// the store, they cost a fraction of single lookups. Each job is read ahead once; a record that was dropped
// since is read alone.
func (tx *Tx) readAhead(l *level) error {
	next := l.list[:min(len(l.list), aheadOf)]
	if next[0].number < l.ahead {
		return nil
	}
	l.ahead = next[len(next)-1].number + 1
	tx.ahead = tx.ahead[:0]
	for _, h := range next {
		if tx.jobs[h.id] == nil && tx.s.gen.recentJobs.record(h.id) == nil {
			tx.ahead = append(tx.ahead, h.id)
		}
	}
	if len(tx.ahead) < 2 {
		return nil // a single lookup is as fast
	}
	slices.SortFunc(tx.ahead, func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) })
	it, err := prefixIter(tx.s.gen.db, prefixJob)
	if err != nil {
		return err
	}
	jobs, asOf := &tx.s.gen.recentJobs, tx.s.head.Load().Index
	for _, id := range tx.ahead {
		tx.key = appendJobKey(tx.key[:0], id)
		if !find(it, tx.key) {
			continue // the reader of this job will report it
		}
		record, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		jobs.mu.Lock()
		jobs.put(id, record, asOf)
		jobs.mu.Unlock()
	}
	return it.Close() // Close also reports why a step found nothing
}

// readJob returns a job as the last commit left it, or nil if there is none.
func (tx *Tx) readJob(id job.ID) (*job.Job, error) {
	j := newRoom()
	if record := tx.s.gen.recentJobs.record(id); record != nil {
		if err := j.UnmarshalVT(record); err != nil {
			return nil, err
		}
		return tidyRoom(j), nil
	}
	tx.key = appendJobKey(tx.key[:0], id)
	if found, err := get(tx.s.gen.db, tx.key, j); !found {
		return nil, err
	}
	return tidyRoom(j), nil
}

// room is a job with the parts that nearly every job has, in one allocation.
type room struct {
	job     job.Job
	retry   job.Retry
	id      job.ID
	history [64]byte // as long as most histories
}

// newRoom returns an empty job to decode a record into.
func newRoom() *job.Job {
	r := &room{}
	r.job.Id, r.job.History, r.job.Retry = r.id[:0], r.history[:0], &r.retry
	return &r.job
}

// tidyRoom removes the parts of a decoded job that its record did not have.
func tidyRoom(j *job.Job) *job.Job {
	if j.Retry.MaxAttempts == 0 && j.Retry.SizeVT() == 0 {
		j.Retry = nil // no job is created with an empty policy
	}
	if len(j.History) == 0 {
		j.History = nil
	}
	return j
}
