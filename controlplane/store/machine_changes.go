package store

import "sync"

// changes wakes the goroutines that wait for a new document, or for a change of a host or a signing key.
type changes struct {
	mu     sync.Mutex
	number int64         // of the newest document
	next   chan struct{} // closed at the next change; nil = nobody waits
}

func (c *changes) announce(number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number = number
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

func (c *changes) watch() (number int64, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.number, c.next
}
