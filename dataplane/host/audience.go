package host

import (
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// MaxStreams bounds the streams of events in the process; each holds a goroutine, a
// connection and a batch of events.
const MaxStreams = 10_000

// audience are those who follow the events of a namespace. Its zero value is ready.
//
// mu is taken by the applying goroutine, so nothing slow happens under it.
type audience struct {
	count atomic.Int64 // lets tell return without the lock
	mu    sync.Mutex
	news  chan struct{} // closed at the next commit; nil while nobody waits for it
}

// tell has everybody look who waits for news.
func (a *audience) tell() {
	if a.count.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.news != nil {
		close(a.news)
		a.news = nil
	}
}

// next closes when the feed grows. Who asks for it before reading misses nothing.
func (a *audience) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.news == nil {
		a.news = make(chan struct{})
	}
	return a.news
}

// Following is a place among those who follow the events of a namespace.
type Following struct {
	host   *Host
	tenant *tenant
}

// Follow takes a place, which must be left. It is refused where there are as many as may
// be.
func (h *Host) Follow(ns tenancy.NamespaceID) (*Following, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	if h.streams.Add(1) > MaxStreams {
		h.streams.Add(-1)
		return nil, api.Errorf(api.Overloaded, "%d event streams are open on this node, the maximum: use another node, or try again later", MaxStreams)
	}
	if t.audience.count.Add(1) > job.MaxStreams {
		t.audience.count.Add(-1)
		h.streams.Add(-1)
		return nil, api.Errorf(api.Overloaded, "%d event streams are open in this namespace, the maximum: close some, or follow several queues with one stream", job.MaxStreams)
	}
	return &Following{h, t}, nil
}

// Followers are how many places are taken among those who follow a namespace's events.
func (h *Host) Followers(ns tenancy.NamespaceID) (int, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return 0, err
	}
	return int(t.audience.count.Load()), nil
}

// Streams are how many places are taken, of all namespaces.
func (h *Host) Streams() int { return int(h.streams.Load()) }

// News closes when there are new events. Who asks for it before reading misses nothing.
func (f *Following) News() <-chan struct{} { return f.tenant.audience.next() }

// Doubt closes when whether the follower may go on must be asked again; an error says
// that the namespace is closing.
func (f *Following) Doubt() (<-chan struct{}, error) { return f.tenant.lot.present() }

// Doubt closes when whether those who stay in a namespace may do so must be asked again;
// an error says that it is closing.
func (h *Host) Doubt(ns tenancy.NamespaceID) (<-chan struct{}, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	return t.lot.present()
}

// Leave gives the place up.
func (f *Following) Leave() {
	f.tenant.audience.count.Add(-1)
	f.host.streams.Add(-1)
}
