package state

import "sync"

// notifier wakes the goroutines that wait for the next change. Its zero value is ready for use.
type notifier struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change; nil if nobody waits
}

// changed returns a channel that is closed at the next change. A reader must take the channel before it reads,
// so that it misses no change.
func (n *notifier) changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

// notify wakes everybody who waits.
func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
