package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/corvo/corvo/tenancy"
)

// visits counts the requests that use a namespace's cells, so that the host does not close the cells under
// them.
type visits struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // made by wait, closed by the last request that leaves
}

// Visit keeps a namespace's cells open until leave is called. A closing namespace refuses new visits and
// waits for the others, for leaveLimit at most.
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

// wait returns when no visit is left or ctx ends. The caller has made sure that no new one begins.
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

// shut closes the cells of a tenant that is no longer in Host.cells: it ends their polls and lets other
// requests finish. It ignores a nil tenant.
func (h *Host) shut(ctx context.Context, ns tenancy.NamespaceID, t *tenant) error {
	if t == nil {
		return nil
	}
	t.leave(ctx)
	return t.close(ctx, ns)
}

// close closes the cells in parallel, because each writes to its own files.
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

// leave ends a tenant's polls and waits, for leaveLimit at most, until its other requests have ended.
func (t *tenant) leave(ctx context.Context) {
	t.polls.close(notOpen())
	leaving, cancel := context.WithTimeout(ctx, leaveLimit)
	defer cancel()
	t.visits.wait(leaving)
}
