package server

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/state/event"
)

const (
	// eventRingBytes bounds the events that a shard keeps in memory for its streams, as
	// they were decoded and as they were encoded. A stream that is farther behind reads
	// the store.
	eventRingBytes = 2 << 20
	// eventRingFill is how many events of the feed a ring takes in at once.
	eventRingFill = 512
	// eventRingLook is how many events a stream takes out of a ring at once.
	eventRingLook = 1024
	// eventRingJoin is how far behind a stream a ring may be and still follow it. A ring
	// that is farther behind, because nobody has read from it, begins anew.
	eventRingJoin = 4096
	// sharedEventBytes is about how much an event takes before it is encoded.
	sharedEventBytes = 256
)

// eventRing keeps the youngest events of a shard, each decoded once and encoded once for
// all streams of events. It has no goroutine: the stream that needs the next events
// reads them from the store, so that streams whose clients do not read cost nothing.
type eventRing struct {
	cell *cell.Cell

	mu     sync.Mutex     // guards what follows
	first  uint64         // the ring knows every event from this sequence on; 0 = it has not begun
	next   uint64         // the sequence of the next event to take in
	events []*sharedEvent // those that clients are told of, oldest first
	bytes  int
	filled time.Time // when it last took events in
}

// after copies events behind a place into buffer and returns the place behind them. ok is
// false if the ring does not go back that far; then to is the sequence it begins with.
func (r *eventRing) after(at uint64, buffer []*sharedEvent) (events []*sharedEvent, to uint64, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == 0 || at+1 > r.next+eventRingJoin {
		r.restart(at + 1)
	}
	if at+1 < r.first {
		return nil, r.first, false, nil
	}
	for at+1 >= r.next {
		more, err := r.fill()
		if err != nil {
			return nil, 0, false, err
		}
		if !more {
			break
		}
	}
	if at+1 < r.first { // it was trimmed meanwhile
		return nil, r.first, false, nil
	}
	i := sort.Search(len(r.events), func(i int) bool { return r.events[i].seq > at })
	n := copy(buffer[:cap(buffer)], r.events[i:])
	events = buffer[:n]
	if i+n < len(r.events) {
		return events, events[n-1].seq, true, nil
	}
	return events, max(at, r.next-1), true, nil
}

// restart has the ring begin at a sequence. The caller holds mu.
func (r *eventRing) restart(seq uint64) {
	r.first, r.next, r.bytes = seq, seq, 0
	clear(r.events)
	r.events = r.events[:0]
}

// fill takes in the next events of the feed; more is false if there are none. The caller
// holds mu.
func (r *eventRing) fill() (more bool, err error) {
	if r.next >= r.cell.State().Head().FeedNextSeq {
		return false, nil
	}
	v := r.cell.State().Snapshot()
	defer func() { err = errors.Join(err, v.Close()) }()
	if oldest := v.Head().FeedFirstSeq; r.next < oldest {
		r.restart(oldest)
	}
	r.filled = time.Now()
	taken := 0
	for item, err := range v.Feed(r.next) {
		if err != nil {
			return false, fmt.Errorf("feed of shard %d: %w", r.cell.Shard(), err)
		}
		for n, e := range item.Entry.Events {
			seq := item.FirstSeq + uint64(n)
			if seq < r.next {
				continue
			}
			if taken == eventRingFill {
				return true, nil
			}
			r.next = seq + 1
			taken++
			if _, ok := event.Word(e.Type); ok {
				r.events = append(r.events, &sharedEvent{seq: seq, clockNs: item.Entry.ClockNs, raw: e, ring: r})
				r.bytes += sharedEventBytes
			}
		}
		r.evict()
	}
	return taken > 0, nil
}

// evict forgets the oldest events until the ring is within its bound. The youngest stays,
// so that whoever takes events in also gets some. The caller holds mu.
func (r *eventRing) evict() {
	n := 0
	for r.bytes > eventRingBytes && n < len(r.events)-1 {
		r.bytes -= sharedEventBytes + r.events[n].encoded
		r.first = r.events[n].seq + 1
		n++
	}
	if n == 0 {
		return
	}
	clear(r.events[:n]) // what was evicted is garbage although the array stays
	r.events = r.events[n:]
}

// grew counts the bytes that an event was encoded to.
func (r *eventRing) grew(e *sharedEvent, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.seq < r.first || e.seq >= r.next {
		return // it was evicted meanwhile
	}
	e.encoded += bytes
	r.bytes += bytes
	r.evict()
}

// rest forgets all events if none came for a while. Streams that have read them lose
// nothing, and a namespace where nothing happens keeps nothing in memory.
func (r *eventRing) rest(idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first > 0 && len(r.events) > 0 && time.Since(r.filled) >= idle {
		r.restart(r.next)
		r.events = nil
	}
}

// size is how many events the ring holds, and their bytes.
func (r *eventRing) size() (events, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events), r.bytes
}
