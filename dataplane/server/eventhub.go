package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/tenancy"
)

// What a stream of events costs of its namespace's rate besides the bytes it sends, as
// bytes that cost the processor about as much.
const (
	eventWriteCost = 4 << 10 // a write to a client's connection
	eventReadCost  = 256     // an event that is read from the store and composed for one stream
	eventLookCost  = 1       // an event that a stream looks at
)

// eventBurst is how much of the rate may be used at once after a pause. It is short, so
// that a thousand streams write one after the other and requests come in between.
const eventBurst = 10 * time.Millisecond

// eventHub is what the streams of events of a namespace share: the events and the rate.
type eventHub struct {
	cells   []*cell.Cell
	rings   []*eventRing
	rate    eventRate
	buffers sync.Pool // of *[]*sharedEvent
	streams int       // guarded by eventHubs.mu
}

// eventHubs are those of the namespaces whose events are followed here.
type eventHubs struct {
	mu sync.Mutex
	of map[tenancy.NamespaceID]*eventHub
}

// eventCounts count what streams of events did since the process started.
type eventCounts struct {
	encoded, sent, bytes, resets atomic.Uint64
}

// enter joins the hub of a namespace; the caller must leave it.
func (h *eventHubs) enter(ns tenancy.NamespaceID, cells []*cell.Cell, perSecond int64) *eventHub {
	h.mu.Lock()
	defer h.mu.Unlock()
	hub := h.of[ns]
	if hub == nil || !slices.Equal(hub.cells, cells) { // the namespace was closed and opened again
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

// buffer is room for what is taken out of a ring; reuse gives it back.
func (h *eventHub) buffer() *[]*sharedEvent {
	if b, ok := h.buffers.Get().(*[]*sharedEvent); ok {
		return b
	}
	b := make([]*sharedEvent, 0, eventRingLook)
	return &b
}

func (h *eventHub) reuse(b *[]*sharedEvent) {
	clear((*b)[:cap(*b)]) // it keeps no events in memory
	h.buffers.Put(b)
}

// rest frees the memory of a namespace where nothing happens.
func (h *eventHub) rest(idle time.Duration) {
	for _, r := range h.rings {
		r.rest(idle)
	}
}

// eventRate bounds the bytes per second that the streams of a namespace send. Streams
// take turns in the order in which they ask.
type eventRate struct {
	perSecond int64

	mu   sync.Mutex
	even time.Time // when all that was taken would have been sent at the rate
}

// turn takes room for what a turn is expected to cost, and returns how long to wait for it.
func (r *eventRate) turn(now time.Time, cost int64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if oldest := now.Add(-eventBurst); r.even.Before(oldest) {
		r.even = oldest
	}
	wait := max(0, r.even.Sub(now))
	r.even = r.even.Add(r.time(cost))
	return wait
}

// adjust takes what a turn cost beyond what was expected, or gives the rest back.
func (r *eventRate) adjust(by int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.even = r.even.Add(r.time(by))
}

func (r *eventRate) time(cost int64) time.Duration {
	return time.Duration(float64(cost) / float64(r.perSecond) * float64(time.Second))
}

// eventTurn is a stream's next turn to write.
type eventTurn struct {
	rate     *eventRate
	timer    *time.Timer
	expected int64 // what the next turn is expected to cost: as much as the last
}

func newEventTurn(rate *eventRate) *eventTurn {
	return &eventTurn{rate: rate, expected: eventWriteCost}
}

// take asks for a turn; the channel says when it has come.
func (t *eventTurn) take() <-chan time.Time {
	wait := t.rate.turn(time.Now(), t.expected)
	if t.timer == nil {
		t.timer = time.NewTimer(wait)
	} else {
		t.timer.Reset(wait)
	}
	return t.timer.C
}

// took says what a turn did cost.
func (t *eventTurn) took(cost int64) {
	cost = max(cost, eventWriteCost)
	t.rate.adjust(cost - t.expected)
	t.expected = cost
}

func (t *eventTurn) end() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
