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

// followers notifies the event streams of a namespace that the feed has grown. Its zero value is ready.
//
// The applying goroutine takes mu, so nothing slow happens under it.
type followers struct {
	count atomic.Int64 // registered followers; lets notify return without the lock
	mu    sync.Mutex
	news  chan struct{} // closed at the next commit; nil while no stream waits for it
}

// notify wakes the streams that wait for events.
func (f *followers) notify() {
	if f.count.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

// next returns a channel that closes when the feed grows. A caller that calls next before it reads the feed
// misses no event.
func (f *followers) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.news == nil {
		f.news = make(chan struct{})
	}
	return f.news
}

// Follower is the registration of one event stream with a namespace.
type Follower struct {
	host   *Host
	tenant *tenant
}

// Follow registers a follower of the namespace's events. The caller must call Leave on the result. Follow
// refuses more than MaxStreams followers in the process and more than job.MaxStreams in the namespace.
func (h *Host) Follow(ns tenancy.NamespaceID) (*Follower, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	if h.streams.Add(1) > MaxStreams {
		h.streams.Add(-1)
		return nil, api.Errorf(api.Overloaded, "%d event streams are open on this node, the maximum: use another node, or try again later", MaxStreams)
	}
	if t.followers.count.Add(1) > job.MaxStreams {
		t.followers.count.Add(-1)
		h.streams.Add(-1)
		return nil, api.Errorf(api.Overloaded, "%d event streams are open in this namespace, the maximum: close some, or follow several queues with one stream", job.MaxStreams)
	}
	return &Follower{h, t}, nil
}

// Followers returns the number of registered followers of a namespace's events.
func (h *Host) Followers(ns tenancy.NamespaceID) (int, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return 0, err
	}
	return int(t.followers.count.Load()), nil
}

// Streams returns the number of registered followers of all namespaces.
func (h *Host) Streams() int { return int(h.streams.Load()) }

// News returns a channel that closes when there are new events. A caller that calls News before it reads the
// events misses none.
func (f *Follower) News() <-chan struct{} { return f.tenant.followers.next() }

// Rechecks returns a channel that closes when the follower must check again whether it may continue. It returns
// an error if the namespace is closing.
func (f *Follower) Rechecks() (<-chan struct{}, error) { return f.tenant.polls.recheckChannel() }

// Rechecks returns a channel that closes when the streams of a namespace must check again whether they may
// continue. It returns an error if the namespace is closing.
func (h *Host) Rechecks(ns tenancy.NamespaceID) (<-chan struct{}, error) {
	t, err := h.tenant(ns)
	if err != nil {
		return nil, err
	}
	return t.polls.recheckChannel()
}

// Leave ends the registration. The caller must call Leave exactly once.
func (f *Follower) Leave() {
	f.tenant.followers.count.Add(-1)
	f.host.streams.Add(-1)
}
