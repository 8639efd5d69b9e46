package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/corvo/corvo/tenancy"
)

// visits counts the requests that use a namespace's cells, so that they are not
// closed under them.
type visits struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // made by who waits for the last one to leave
}

// Visit keeps a namespace's cells open until leave is called. A namespace that is
// closing takes no visits and waits for those there are.
func (h *Host) Visit(ns tenancy.NamespaceID) (leave func(), err error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	t, err := h.find(ns)
	if err != nil {
		return nil, err
	}
	t.visits.enter()
	return t.visits.leave, nil
}

func (v *visits) enter() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inside++
}

func (v *visits) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.inside--
	if v.inside == 0 && v.empty != nil {
		close(v.empty)
		v.empty = nil
	}
}

// wait returns when nobody is inside, or ctx ends. Nobody may enter any more.
func (v *visits) wait(ctx context.Context) {
	v.mu.Lock()
	if v.inside == 0 {
		v.mu.Unlock()
		return
	}
	v.empty = make(chan struct{})
	empty := v.empty
	v.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// shut closes cells that are no longer among the host's: their polls are sent
// away, their other requests may end. There is nothing to close of a nil tenant.
func (h *Host) shut(ctx context.Context, ns tenancy.NamespaceID, t *tenant) error {
	if t == nil {
		return nil
	}
	t.leave(ctx)
	return t.close(ctx, ns)
}

// close closes the cells side by side: each writes what it has to its own files.
func (t *tenant) close(ctx context.Context, ns tenancy.NamespaceID) error {
	errs := make([]error, len(t.cells))
	var closing sync.WaitGroup
	for i, c := range t.cells {
		closing.Go(func() {
			if err := c.Close(ctx); err != nil {
				errs[i] = fmt.Errorf("close shard %d of namespace %s: %w", c.Shard(), ns, err)
			}
		})
	}
	closing.Wait()
	return errors.Join(errs...)
}

// leave sends a tenant's polls away and waits until its other requests have ended,
// for leaveLimit at most.
func (t *tenant) leave(ctx context.Context) {
	t.lot.close(notOpen())
	leaving, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	t.visits.wait(leaving)
}
