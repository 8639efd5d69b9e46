package server

import (
	"net/http"
	"sync"
	"time"
)

// deadlines are those of a connection that others than its handler set. After the
// handler has returned the connection is somebody else's, so they end with it.
type deadlines struct {
	mu      sync.Mutex
	control *http.ResponseController
	over    bool
}

func deadlinesOf(w http.ResponseWriter) *deadlines {
	return &deadlines{control: http.NewResponseController(w)}
}

// end is called before the handler returns.
func (d *deadlines) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// endReads has reads of the body fail, the present one too.
func (d *deadlines) endReads() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		_ = d.control.SetReadDeadline(time.Now()) // writers of tests have none
	}
}

// endWrites has writes of the answer fail, the present one too.
func (d *deadlines) endWrites() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		_ = d.control.SetWriteDeadline(time.Now())
	}
}

// writeForever lifts the server's deadline, which is for answers that end.
func (d *deadlines) writeForever() { _ = d.control.SetWriteDeadline(time.Time{}) }

// writeGuard cuts off a client that does not read what it is sent. A deadline for each
// message would cost one more message to the connection's goroutine.
type writeGuard struct {
	timer *time.Timer
	wait  time.Duration
}

func (d *deadlines) guard(wait time.Duration) *writeGuard {
	g := &writeGuard{timer: time.AfterFunc(wait, d.endWrites), wait: wait}
	g.timer.Stop()
	return g
}

func (g *writeGuard) begin() { g.timer.Reset(g.wait) }
func (g *writeGuard) end()   { g.timer.Stop() }
