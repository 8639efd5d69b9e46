package reconcile

import (
	"maps"
	"sync"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/plan"
)

// AliveLimit is for how long after a report a host counts as alive. It is several
// reports long: a host whose disk stalls for a moment is not dead.
const AliveLimit = 5 * wire.ReportEvery

// Observations are what hosts and gateways said last. They are not state: a control
// plane that starts again knows nothing and is told everything within
// wire.ReportEvery.
type Observations struct {
	now   func() time.Time
	mu    sync.Mutex
	hosts map[string]*observed
	fresh chan struct{} // closed and replaced when a report says something new
}

// observed is one host.
type observed struct {
	seen     time.Time // when it last asked for anything
	reported time.Time // zero = it has not since we started
	cells    map[string]plan.Cell
}

// NewObservations is the memory of a process that has just started.
func NewObservations(now func() time.Time) *Observations {
	return &Observations{now: now, hosts: make(map[string]*observed), fresh: make(chan struct{})}
}

func (o *Observations) host(id string) *observed {
	h := o.hosts[id]
	if h == nil {
		h = &observed{}
		o.hosts[id] = h
	}
	h.seen = o.now()
	return h
}

// Touch notes that a host or gateway has called. Only those that are registered may
// be noted: so the memory is bounded by them.
func (o *Observations) Touch(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.host(id)
}

// Observe takes a host's report, which is all of what it has.
func (o *Observations) Observe(id string, r wire.Report) {
	cells := make(map[string]plan.Cell, len(r.Cells))
	for _, c := range r.Cells {
		cells[c.Namespace] = plan.Cell{Generation: c.Generation, State: c.State, Error: c.Error}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.host(id)
	revived := !o.alive(h)
	h.reported = h.seen
	if revived || !maps.Equal(cells, h.cells) {
		close(o.fresh)
		o.fresh = make(chan struct{})
	}
	h.cells = cells
}

// Seen is when a host or gateway last called; ok is false when it has not since
// this process started.
func (o *Observations) Seen(id string) (at time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.hosts[id]; h != nil {
		return h.seen, true
	}
	return time.Time{}, false
}

// Alive says whether a host has reported within AliveLimit.
func (o *Observations) Alive(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.hosts[id]
	return h != nil && o.alive(h)
}

func (o *Observations) alive(h *observed) bool {
	return !h.reported.IsZero() && o.now().Sub(h.reported) <= AliveLimit
}

// Cell is what a host said last of a namespace.
func (o *Observations) Cell(host, namespace string) plan.Cell {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.hosts[host]; h != nil {
		return h.cells[namespace]
	}
	return plan.Cell{}
}

// Fresh is closed when a report says something new.
func (o *Observations) Fresh() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fresh
}
