package state

import (
	"bytes"
	"errors"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

// recent are records of jobs as they lie in the store, of those that entries have
// lately written or are about to fetch: a job goes from its enqueue to its fetch to its
// ack within moments, and to read it from Pebble each time costs more than all else
// that an op does. Encoded, and not as jobs: an op changes those in place, and what one
// changed and did not put must not be there for the next.
//
// What is here is what the store holds as of the last commit, and nothing shows whether
// a record was here: it is read from the store then. So replicas need not hold the same.
//
// There are two pages. When the one being written is full it becomes the old one, and
// what that held is forgotten. Neither holds a pointer: the collector passes them by.
type recent struct {
	bound int // bytes of a page
	pages [2]page
}

type page struct {
	at    map[job.ID]span
	bytes []byte
}

// leastPage is what a page that holds anything has room for: little, for many stores of
// a host are idle.
const leastPage = 4 << 10

type span struct{ from, to uint32 }

// record is the record of a job; nil when it is not here. It is valid until the next
// put.
func (r *recent) record(id job.ID) []byte {
	for i := range r.pages {
		if s, ok := r.pages[i].at[id]; ok {
			return r.pages[i].bytes[s.from:s.to]
		}
	}
	return nil
}

// put keeps a record that is in the store.
func (r *recent) put(id job.ID, record []byte) {
	if len(record) > r.bound {
		r.remove(id)
		return
	}
	young := &r.pages[0]
	if len(young.bytes)+len(record) > r.bound {
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
	young.at[id] = span{uint32(from), uint32(len(young.bytes))}
}

// remove forgets a job.
func (r *recent) remove(id job.ID) {
	for i := range r.pages {
		delete(r.pages[i].at, id)
	}
}

// keepRecent brings what is kept of the entry's jobs up to its commit. Nobody asks soon
// for one that has settled.
func (tx *Tx) keepRecent() {
	for _, h := range tx.byID {
		switch {
		case h.job == nil || h.now.state.Settled():
			tx.s.recent.remove(h.id)
		default:
			tx.s.recent.put(h.id, h.record)
		}
		h.record = nil
	}
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
		if tx.jobs[h.id] == nil && tx.s.recent.record(h.id) == nil {
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
	for _, id := range tx.ahead {
		tx.key = appendJobKey(tx.key[:0], id)
		if !it.SeekGE(tx.key) || !bytes.Equal(it.Key(), tx.key) {
			continue // whoever asks for it will be told
		}
		record, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		tx.s.recent.put(id, record)
	}
	return it.Close() // says also why a step found nothing
}

// readJob is a job as the last commit left it; nil when there is none.
func (tx *Tx) readJob(id job.ID) (*job.Job, error) {
	j := newRoom()
	if record := tx.s.recent.record(id); record != nil {
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
