package state

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/corvo/corvo/dataplane/job"
)

// recent are records of one kind as they lie in the store, by the jobs they are of: those
// that entries have lately written or are about to ask for. A job goes from its enqueue to
// its fetch to its ack within moments, and to read it from Pebble each time costs more than
// all else that an op does. Encoded, and not as jobs: an op changes those in place, and what
// one changed and did not put must not be there for the next.
//
// What is here is what the store holds as of the last commit, and nothing shows whether
// a record was here: it is read from the store then. So replicas need not hold the same.
//
// There are two pages. When the one being written is full it becomes the old one, and
// what that held is forgotten. Neither holds a pointer: the collector passes them by.
type recent struct {
	mu    sync.RWMutex // for all but what the entry under way reads: nobody else writes
	bound int          // bytes of a page, recordCost of each record included
	pages [2]page
}

type page struct {
	at    map[job.ID]span
	bytes []byte
}

// leastPage is what a page that holds anything has room for: little, for many stores of
// a host are idle.
const leastPage = 4 << 10

// recordCost is about what a record takes besides its bytes, in a map of a page.
const recordCost = 64

// span is where a record lies in its page, and the entry as of which it is known to be
// what the store has.
type span struct {
	from, to uint32
	index    uint64
}

// record is the record of a job; nil when it is not here. It is valid until the next
// put. It is for the entry under way.
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

// asOfNow is for who reads the store as it is, and not a snapshot of it.
const asOfNow = math.MaxUint64

// load decodes the record of a job into m, if it is here and is what the store had as of
// an entry. It is for everybody.
func (r *recent) load(id job.ID, asOf uint64, m record) (found bool, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	record, index := r.find(id)
	if record == nil || index > asOf {
		return false, nil // an older one on the other page need not be the last before asOf
	}
	return true, m.UnmarshalVT(record)
}

// put keeps a record that is in the store as of an entry. The caller holds mu.
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
		young.at = map[job.ID]span{}
	}
	from := len(young.bytes)
	if from+len(record) > cap(young.bytes) {
		// Doubled, unlike by append, for a page grows to its bound anyhow.
		grown := make([]byte, from, min(max(2*cap(young.bytes), from+len(record), leastPage), r.bound))
		copy(grown, young.bytes)
		young.bytes = grown
	}
	young.bytes = append(young.bytes, record...)
	young.at[id] = span{uint32(from), uint32(len(young.bytes)), index}
}

// remove forgets a job. The caller holds mu.
func (r *recent) remove(id job.ID) {
	for i := range r.pages {
		delete(r.pages[i].at, id)
	}
}

// payloadPut is the payload of a job as an entry has it in its batch.
type payloadPut struct {
	id     job.ID
	record []byte // nil: it was deleted
}

// keepRecent brings what is kept of the entry's jobs, and of what they were enqueued with,
// up to its commit, before that is published: a snapshot of it must find nothing older here.
// No op asks soon for a job that has settled.
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

// aheadOf is how many ready jobs are read at once, when the first of them is asked for.
const aheadOf = 64

// readAhead reads the records of ready jobs that are about to be asked for: with one
// iterator, and in the order of the store, they cost a fraction of what they do one by
// one. Each is read ahead once; one that is forgotten meanwhile is read alone.
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
		return nil // alone it is read as fast
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
			continue // whoever asks for it will be told
		}
		record, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		jobs.mu.Lock()
		jobs.put(id, record, asOf)
		jobs.mu.Unlock()
	}
	return it.Close() // says also why a step found nothing
}

// readJob is a job as the last commit left it; nil when there is none.
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

// room is a job and what nearly every job has, in one piece.
type room struct {
	job     job.Job
	retry   job.Retry
	id      job.ID
	history [64]byte // as long as most are
}

// newRoom is an empty job to decode a record into.
func newRoom() *job.Job {
	r := &room{}
	r.job.Id, r.job.History, r.job.Retry = r.id[:0], r.history[:0], &r.retry
	return &r.job
}

// tidyRoom takes out of a decoded job what its record did not have.
func tidyRoom(j *job.Job) *job.Job {
	if j.Retry.MaxAttempts == 0 && j.Retry.SizeVT() == 0 {
		j.Retry = nil // no job is made with one that says nothing
	}
	if len(j.History) == 0 {
		j.History = nil
	}
	return j
}
