package serve

import (
	"net/http"
	"sync"
	"time"
)

// Deadlines sets the deadlines of a connection from goroutines other than the handler's. When the handler has
// returned, the connection serves another request, so after End neither EndReads nor a WriteGuard does
// anything.
type Deadlines struct {
	mu      sync.Mutex
	control *http.ResponseController
	over    bool
}

// DeadlinesOf returns the Deadlines of the connection of a response. Writers without deadlines, such as
// those of tests, ignore them.
func DeadlinesOf(w http.ResponseWriter) *Deadlines {
	return &Deadlines{control: http.NewResponseController(w)}
}

// End makes EndReads and the WriteGuards do nothing from now on. The handler must call it or EndWritingWithin before
// it returns.
func (d *Deadlines) End() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// EndReads makes the present and all later reads of the body fail, unless End was called.
func (d *Deadlines) EndReads() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		_ = d.control.SetReadDeadline(time.Now())
	}
}

// endWrites makes the present and all later writes of the response fail, unless End was called.
func (d *Deadlines) endWrites() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		_ = d.control.SetWriteDeadline(time.Now())
	}
}

// WriteForever removes the server's write deadline, which would cut off a stream. Only the handler may call it.
func (d *Deadlines) WriteForever() { _ = d.control.SetWriteDeadline(time.Time{}) }

// EndWritingWithin calls End and then limits the time for sending what is left of the response. Only the
// handler may call it.
func (d *Deadlines) EndWritingWithin(wait time.Duration) {
	d.End()
	_ = d.control.SetWriteDeadline(time.Now().Add(wait))
}

// WriteGuard cuts off a client that does not read the response. A deadline for each write would do so too,
// but in HTTP/2 each deadline costs a message to the connection's goroutine.
type WriteGuard struct {
	timer *time.Timer
	wait  time.Duration
}

// Guard returns a WriteGuard that allows each write the time wait. If a write takes longer, that write and
// all later ones fail.
func (d *Deadlines) Guard(wait time.Duration) *WriteGuard {
	g := &WriteGuard{timer: time.AfterFunc(wait, d.endWrites), wait: wait}
	g.timer.Stop()
	return g
}

// Begin starts the time of a write. The writer calls it before each write.
func (g *WriteGuard) Begin() { g.timer.Reset(g.wait) }

// End stops the time of a write. The writer calls it after each write.
func (g *WriteGuard) End() { g.timer.Stop() }
