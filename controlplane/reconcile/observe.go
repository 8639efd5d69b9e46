package reconcile

import (
	"sync"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
)

// AliveLimit is how long after a report a host counts as alive. It spans several reports, because a host
// whose disk stalls for a moment is not dead.
const AliveLimit = 5 * wire.ReportEvery

// HostGrace is the default time without a report after which a host counts as dead, so that its members are replaced.
// It is long, because a copy of a namespace costs more than a few minutes with a member less.
const HostGrace = 10 * time.Minute

// Observations holds the last reports of hosts, and the times of the last requests of hosts and gateways.
// Observations are not state: a process that starts or begins to lead knows nothing, asks each host for a full report
// and has all of them within wire.ReportEvery.
type Observations struct {
	now   func() time.Time
	grace time.Duration // time without a report after which a host is dead
	mu    sync.Mutex
	term  uint64    // of the leadership in which the reports came
	since time.Time // since when silence counts in this term; zero = this process has never led
	watch time.Time // of the last Watch
	hosts map[string]*observed
	fresh chan struct{}   // closed and replaced when a report says something new
	news  map[string]bool // namespaces with something new in a report since the last News
}

// observed holds the observations of one host or gateway.
type observed struct {
	seen     time.Time // time of its last request of any kind
	reported time.Time // time of its last report; zero = none in this term
	cells    map[string]observedCell
	capacity wire.Capacity // in its last report; zero = not known
	usage    billing.Claim // of a gateway, in its last report; zero = none
	chain    reportChain
}

// observedCell is a report on a namespace and the time since when the host has reported the same.
type observedCell struct {
	plan.CellReport
	since time.Time
}

// NewObservations returns the empty observations of a process that has just started. grace is the time without a
// report after which a host counts as dead.
func NewObservations(now func() time.Time, grace time.Duration) *Observations {
	return &Observations{now: now, grace: grace, hosts: make(map[string]*observed), fresh: make(chan struct{}), news: make(map[string]bool)}
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

// Touch records a request of a host or gateway. The caller must pass only registered ones, so that the
// registrations bound the memory.
func (o *Observations) Touch(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.host(id)
}

// Lead drops the reports of earlier terms of this process's leadership, because they are old: hosts count as
// alive only once they have reported in this term. It keeps the times of requests.
func (o *Observations) Lead(term uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lead(term)
}

// lead implements Lead. The caller holds mu.
func (o *Observations) lead(term uint64) {
	if term <= o.term {
		return
	}
	o.term, o.since, o.watch = term, o.now(), o.now()
	clear(o.news)
	for _, h := range o.hosts {
		h.reported, h.cells, h.capacity, h.chain = time.Time{}, nil, wire.Capacity{}, reportChain{}
	}
}

// Seen returns the time of the last request of a host or gateway; ok is false if there was none since this
// process started.
func (o *Observations) Seen(id string) (at time.Time, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.hosts[id]; h != nil {
		return h.seen, true
	}
	return time.Time{}, false
}

// Alive reports whether a host has reported within AliveLimit.
func (o *Observations) Alive(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.hosts[id]
	return h != nil && o.alive(h)
}

func (o *Observations) alive(h *observed) bool {
	return !h.reported.IsZero() && o.now().Sub(h.reported) <= AliveLimit
}

// Watch notes that this process works. The reconciler calls it before each decision. If it has not done so for AliveLimit,
// this process stood still and may have missed reports, so that the silence of hosts counts from now on.
func (o *Observations) Watch() {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if !o.since.IsZero() && now.Sub(o.watch) > AliveLimit {
		o.since = now
	}
	o.watch = now
}

// Host adds the observations of a host to the planner's view of it. A host is away or dead only if this process has
// led, and has not stood still, for as long as that takes.
func (o *Observations) Host(h plan.Host) plan.Host {
	o.mu.Lock()
	defer o.mu.Unlock()
	var reported time.Time
	if of := o.hosts[h.ID]; of != nil {
		h.Alive, h.Capacity = o.alive(of), of.capacity
		reported = of.reported
	}
	if !h.Alive && !o.since.IsZero() {
		if reported.Before(o.since) {
			reported = o.since
		}
		silent := o.now().Sub(reported)
		h.Away, h.Dead = silent > AliveLimit, silent > max(AliveLimit, o.grace)
	}
	return h
}

// Cell returns a host's last report on a namespace, or the zero CellReport if the host has reported nothing on it.
func (o *Observations) Cell(host, namespace string) plan.CellReport {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.hosts[host]
	if h == nil {
		return plan.CellReport{}
	}
	cell := h.cells[namespace]
	cell.Lasting = !cell.since.IsZero() && o.now().Sub(cell.since) > AliveLimit
	return cell.CellReport
}

// Cells returns the last reports on a namespace of the hosts of its members, by host id.
func (o *Observations) Cells(ns fleet.Namespace) map[string]plan.CellReport {
	cells := make(map[string]plan.CellReport, len(ns.Members))
	for _, m := range ns.Members {
		cells[m.Host] = o.Cell(m.Host, string(ns.ID))
	}
	return cells
}

// News returns the namespaces with something new in a host's report since the last call.
func (o *Observations) News() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	news := o.news
	o.news = make(map[string]bool)
	return news
}

// Capacity returns the capacity in a host's last report; zero = not known.
func (o *Observations) Capacity(host string) wire.Capacity {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h := o.hosts[host]; h != nil {
		return h.capacity
	}
	return wire.Capacity{}
}

// Fresh returns a channel that is closed when a report differs from the host's last one, or a host is alive
// again.
func (o *Observations) Fresh() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fresh
}
