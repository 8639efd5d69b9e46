package host

import (
	"sync"
	"sync/atomic"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// MaxStreams bounds the open event streams of the process. Each holds a goroutine, a connection and a batch
// of events.
const MaxStreams = 10_000

// audience notifies the event streams of a namespace that the feed has grown. Its zero value is ready.
//
// The applying goroutine takes mu, so nothing slow happens under it.
type audience struct {
	count atomic.Int64 // registered followers; lets tell return without the lock
	mu    sync.Mutex
	news  chan struct{} // closed at the next commit; nil while no stream waits for it
}

// tell wakes the streams that wait for events.
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

// next returns a channel that closes when the feed grows. A caller that asks for it before it reads misses no
// event.
func (a *audience) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.news == nil {
		a.news = make(chan struct{})
	}
	return a.news
}

// Following is the registration of one event stream with a namespace.
type Following struct {
	host   *Host
	tenant *tenant
}

// Follow registers a follower of the namespace's events. The caller must call Leave on the result. Follow
// refuses more than MaxStreams followers in the process and more than job.MaxStreams in the namespace.
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

// Followers returns the number of registered followers of a namespace's events.
func (h *Host) Followers(ns tenancy.NamespaceID) (int, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return 0, err
	}
	return int(t.audience.count.Load()), nil
}

// Streams returns the number of registered followers of all namespaces.
func (h *Host) Streams() int { return int(h.streams.Load()) }

// News returns a channel that closes when there are new events. A caller that asks for it before it reads
// misses no event.
func (f *Following) News() <-chan struct{} { return f.tenant.audience.next() }

// Doubt returns a channel that closes when the follower must check again whether it may continue. It returns
// an error if the namespace is closing.
func (f *Following) Doubt() (<-chan struct{}, error) { return f.tenant.lot.present() }

// Doubt returns a channel that closes when the streams of a namespace must check again whether they may
// continue. It returns an error if the namespace is closing.
func (h *Host) Doubt(ns tenancy.NamespaceID) (<-chan struct{}, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	return t.lot.present()
}

// Leave ends the registration.
func (f *Following) Leave() {
	f.tenant.audience.count.Add(-1)
	f.host.streams.Add(-1)
}
