package cell

import (
	"sync"

	"github.com/corvo/corvo/engine/membership"
)

// listed notifies the group of a new list of members.
type listed struct {
	mu      sync.Mutex
	changed chan struct{} // closed when the list changes; nil until somebody asks
}

// onMembers implements the store's hook for a new list of members.
func (l *listed) onMembers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// next returns a channel that is closed when the list changes after the call.
func (l *listed) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// members implements engine.Config.List.
func (c *Cell) members() (list []membership.Listed, changed <-chan struct{}) {
	changed = c.listed.next() // before the list is read, so that no change is missed
	for _, m := range c.store.Members().GetMembers() {
		list = append(list, membership.Listed{ID: m.GetId(), Address: m.GetAddress()})
	}
	return list, changed
}
