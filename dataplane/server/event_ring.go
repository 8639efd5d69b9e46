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
	// eventRingBytes bounds the memory for a shard's decoded and encoded events that its streams share. A
	// stream that needs older events reads the store.
	eventRingBytes = 2 << 20
	// eventRingFill is the number of feed events that a ring reads at once.
	eventRingFill = 512
	// eventRingLook is the number of events that a stream takes from a ring at once.
	eventRingLook = 1024
	// eventRingJoin is how many events a ring may be behind a stream and still catch up. A ring that is
	// further behind, because no stream read from it, restarts at the stream's position.
	eventRingJoin = 4096
	// sharedEventBytes is the approximate memory of an event before it is encoded.
	sharedEventBytes = 256
)

// eventRing keeps the newest events of a shard. Each is decoded once for all event streams, and encoded once
// for each form that streams share. The ring has no goroutine: the stream that needs the next events reads
// them from the store, so that a stream whose client does not read causes no reads.
type eventRing struct {
	cell *cell.Cell

	mu     sync.Mutex     // guards the fields below
	first  uint64         // the ring has every visible event from this sequence on; 0 = it has not begun
	next   uint64         // the sequence of the next event to read
	events []*sharedEvent // the events that clients may see, oldest first
	bytes  int
	filled time.Time // when the ring last read new events from the store
}

// after copies the events after a position into buffer, as many as fit. events is a part of buffer, and to is
// the position after the copied events. If the ring does not reach back to the position, ok is false and to
// is the first sequence of the ring.
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
	if at+1 < r.first { // the feed was trimmed in the meantime
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

// restart empties the ring and begins it at a sequence. The caller holds mu.
func (r *eventRing) restart(seq uint64) {
	r.first, r.next, r.bytes = seq, seq, 0
	clear(r.events)
	r.events = r.events[:0]
}

// fill reads the next events of the feed. It returns false if there are none. The caller holds mu.
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

// evict removes the oldest events until the ring is within its bound. It keeps the newest event, so that a
// stream that fills the ring always gets one. The caller holds mu.
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
	clear(r.events[:n]) // evicted events become garbage although the array stays
	r.events = r.events[n:]
}

// grew counts the bytes that an event gained when a stream composed or encoded it.
func (r *eventRing) grew(e *sharedEvent, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.seq < r.first || e.seq >= r.next {
		return // the ring has dropped the event in the meantime
	}
	e.encoded += bytes
	r.bytes += bytes
	r.evict()
}

// rest removes all events if no stream has read new ones from the store for the given time, so that an idle
// namespace keeps no memory. A stream that has not read the removed events reads them from the store.
func (r *eventRing) rest(idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first > 0 && len(r.events) > 0 && time.Since(r.filled) >= idle {
		r.restart(r.next)
		r.events = nil
	}
}

// size returns the number of events in the ring and their bytes.
func (r *eventRing) size() (events, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events), r.bytes
}
