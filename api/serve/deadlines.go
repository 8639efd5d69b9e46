package serve

import (
	"net/http"
	"sync"
	"time"
)

// Deadlines are those of a connection that others than its handler set. After the
// handler has returned the connection is somebody else's, so they end with it.
type Deadlines struct {
	mu      sync.Mutex
	control *http.ResponseController
	over    bool
}

// DeadlinesOf are those of the connection of an answer. Writers that know none, such as
// those of tests, go without.
func DeadlinesOf(w http.ResponseWriter) *Deadlines {
	return &Deadlines{control: http.NewResponseController(w)}
}

// End is called before the handler returns.
func (d *Deadlines) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// EndReads has reads of the body fail, the present one too.
func (d *Deadlines) EndReads() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		_ = d.control.SetReadDeadline(time.Now())
	}
}

// endWrites has writes of the answer fail, the present one too.
func (d *Deadlines) endWrites() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		_ = d.control.SetWriteDeadline(time.Now())
	}
}

// WriteForever lifts the server's deadline, which is for answers that end.
func (d *Deadlines) WriteForever() { _ = d.control.SetWriteDeadline(time.Time{}) }

// EndWritingWithin is End, and how long what is still buffered of the answer may take.
func (d *Deadlines) EndWritingWithin(wait time.Duration) {
	d.End()
	_ = d.control.SetWriteDeadline(time.Now().Add(wait))
}

// WriteGuard cuts off a client that does not read what it is sent. A deadline for each
// write would cost a message to the connection's goroutine in HTTP/2.
type WriteGuard struct {
	timer *time.Timer
	wait  time.Duration
}

// Guard lets each write take so long.
func (d *Deadlines) Guard(wait time.Duration) *WriteGuard {
	g := &WriteGuard{timer: time.AfterFunc(wait, d.endWrites), wait: wait}
	g.timer.Stop()
	return g
}

// Begin is called before something is written.
func (g *WriteGuard) Begin() { g.timer.Reset(g.wait) }

// End is called when it has been taken.
func (g *WriteGuard) End() { g.timer.Stop() }
