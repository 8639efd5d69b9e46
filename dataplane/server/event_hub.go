package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/tenancy"
)

// An event stream charges its namespace's rate for its reads and for the bytes that it sends. Each constant
// is the charge of one step: the number of sent bytes that take about as much processor time.
const (
	eventWriteCost = 4 << 10 // the least charge of a write to a client's connection, also if there is nothing to write
	eventReadCost  = 256     // an event that one stream reads from the store, shown or not
	eventLookCost  = 1       // an event of the ring that a stream examines
)

// eventBurst is the longest time whose unused rate a namespace saves up. It is short, so that a thousand
// streams write one after the other and requests run in between.
const eventBurst = 10 * time.Millisecond

// eventHub is shared by the event streams of a namespace. It has their events and their rate.
type eventHub struct {
	cells   []*cell.Cell
	rings   []*eventRing
	rate    eventRate
	buffers sync.Pool // of *[]*sharedEvent
	streams int       // guarded by eventHubs.mu
}

// eventHubs has the hub of each namespace whose events are streamed here.
type eventHubs struct {
	mu sync.Mutex
	of map[tenancy.NamespaceID]*eventHub
}

// eventCounts counts the work of event streams since the server was created.
type eventCounts struct {
	encoded, sent, bytes, resets atomic.Uint64
}

// enter joins the hub of a namespace. The caller must call leave with the returned hub.
func (h *eventHubs) enter(ns tenancy.NamespaceID, cells []*cell.Cell, perSecond int64) *eventHub {
	h.mu.Lock()
	defer h.mu.Unlock()
	hub := h.of[ns]
	if hub == nil || !slices.Equal(hub.cells, cells) { // the first stream, or the namespace was closed and opened again
		hub = &eventHub{cells: cells, rate: eventRate{perSecond: perSecond}}
		for _, c := range cells {
			hub.rings = append(hub.rings, &eventRing{cell: c})
		}
		h.of[ns] = hub
	}
	hub.streams++
	return hub
}

func (h *eventHubs) leave(ns tenancy.NamespaceID, hub *eventHub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hub.streams--; hub.streams == 0 && h.of[ns] == hub {
		delete(h.of, ns)
	}
}

// buffer returns room for events of a ring; reuse takes it back.
func (h *eventHub) buffer() *[]*sharedEvent {
	if b, ok := h.buffers.Get().(*[]*sharedEvent); ok {
		return b
	}
	b := make([]*sharedEvent, 0, eventRingLook)
	return &b
}

func (h *eventHub) reuse(b *[]*sharedEvent) {
	clear((*b)[:cap(*b)]) // so that the buffer keeps no events in memory
	h.buffers.Put(b)
}

// rest frees the memory of the rings that have read no new events for the given time.
func (h *eventHub) rest(idle time.Duration) {
	for _, r := range h.rings {
		r.rest(idle)
	}
}

// eventRate bounds the cost per second, in bytes, of the streams of a namespace. It serves streams roughly in
// the order of their requests, because adjust changes only the waits of later ones.
type eventRate struct {
	perSecond int64

	mu   sync.Mutex
	even time.Time // when the rate allows the next write
}

// reserve charges the expected cost of a write and returns how long the stream must wait before the write.
func (r *eventRate) reserve(now time.Time, cost int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if oldest := now.Add(-eventBurst); r.even.Before(oldest) {
		r.even = oldest
	}
	wait := max(0, r.even.Sub(now))
	r.even = r.even.Add(r.time(cost))
	return wait
}

// adjust corrects the charge of a write by the difference between its real and its expected cost. A negative
// difference is a refund.
func (r *eventRate) adjust(by int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.even = r.even.Add(r.time(by))
}

func (r *eventRate) time(cost int64) time.Duration {
	return time.Duration(float64(cost) / float64(r.perSecond) * float64(time.Second))
}

// eventPace schedules the next write of one stream.
type eventPace struct {
	rate     *eventRate
	timer    *time.Timer
	expected int64 // the expected cost of the next write: the cost of the last
}

func newEventPace(rate *eventRate) *eventPace {
	return &eventPace{rate: rate, expected: eventWriteCost}
}

// take asks for the next write. The returned channel fires when the write may begin.
func (t *eventPace) take() <-chan time.Time {
	wait := t.rate.reserve(time.Now(), t.expected)
	if t.timer == nil {
		t.timer = time.NewTimer(wait)
	} else {
		t.timer.Reset(wait)
	}
	return t.timer.C
}

// took charges the real cost of a write, at least eventWriteCost, and expects the next write to cost as much.
func (t *eventPace) took(cost int64) {
	cost = max(cost, eventWriteCost)
	t.rate.adjust(cost - t.expected)
	t.expected = cost
}

func (t *eventPace) end() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
