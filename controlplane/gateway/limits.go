package gateway

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve/pace"
)

// letIn finds the namespace a request is let into, within the limits at the door. A
// failure is counted after the credential was looked at, so that a flood from an address
// never keeps out a valid one from there.
func (g *Gateway) letIn(ctx context.Context, t *trip, r *http.Request) (fleet.Doc, error) {
	from, now := g.limits.From(r), g.config.Now()
	if err := g.limits.Arrives(from, now); err != nil {
		return fleet.Doc{}, err
	}
	who, doc, err := g.member.Enter(ctx, g.book, t.credential, t.hint, reachable)
	switch {
	case api.CodeOf(err) == api.Unauthorized:
		err = cmp.Or(g.limits.Failed(from, now), err)
	case err == nil && g.config.Limits.PerKey != 0:
		err = g.limits.Asks(g.paces.of(who.KeyID), now)
	}
	return doc, err
}

// keyPaces is how fast keys ask that have asked of late. Only those that exist have one.
type keyPaces struct{ buckets sync.Map } // id of the key -> *pace.Bucket

func (p *keyPaces) of(key string) *pace.Bucket {
	b, ok := p.buckets.Load(key)
	if !ok {
		b, _ = p.buckets.LoadOrStore(key, new(pace.Bucket))
	}
	return b.(*pace.Bucket)
}

// forget lets go of what says no more than a new one would.
func (p *keyPaces) forget(now time.Time) {
	p.buckets.Range(func(key, b any) bool {
		if b.(*pace.Bucket).Rests(now) {
			p.buckets.Delete(key)
		}
		return true
	})
}

// reader is the client as it takes an answer: it is cut off when it takes nothing for too
// long. The server's deadline is for answers that end, and lifted here.
type reader struct {
	wait  time.Duration
	timer *time.Timer // nil = it has taken nothing yet

	mu      sync.Mutex
	control *http.ResponseController
	over    bool // the connection is somebody else's
}

func readerOf(w http.ResponseWriter, wait time.Duration) *reader {
	c := &reader{wait: wait, control: http.NewResponseController(w)}
	_ = c.control.SetWriteDeadline(time.Time{}) // writers of tests have none
	return c
}

// begin is called before something is written, end when it has been taken. A deadline for
// each write would cost a message to the connection's goroutine in HTTP/2.
func (c *reader) begin() {
	if c.timer == nil {
		c.timer = time.AfterFunc(c.wait, c.cutOff)
		return
	}
	c.timer.Reset(c.wait)
}

func (c *reader) end() { c.timer.Stop() }

func (c *reader) cutOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = c.control.SetWriteDeadline(time.Now())
	}
}

// leave gives the connection up. What is still buffered of the answer has as long.
func (c *reader) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	_ = c.control.SetWriteDeadline(time.Now().Add(c.wait))
}
