package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// silentTicks is the number of RecheckEvery after which a host that has not answered a request, or that has an
	// open stream, gets a probe in each RecheckEvery.
	silentTicks = 2
	// silentProbes is the number of probes in a row without any answer after which a host is silent.
	silentProbes = 2
	// silentTimeout is the time for the answer to such a probe. It is long, because a busy host must not count as
	// silent.
	silentTimeout = 2 * time.Second
)

// errHostSilent means that a host has taken a request and stopped answering.
var errHostSilent = errors.New("the host has stopped answering")

// stay is the stay of a request at a host, if other members could serve the request.
type stay struct {
	mu     sync.Mutex
	target *url.URL // of the host; nil = at no host
	to     peer
	ticks  int
	// giveUp ends the try, so that another member gets the request; nil = the host has answered, or the request must
	// not be repeated.
	giveUp context.CancelCauseFunc
	gaveUp bool
}

// begin records that a request is sent to the chosen member, and returns the request to send.
func (s *stay) begin(t *proxiedRequest, r *http.Request) *http.Request {
	if len(t.members) < 2 {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target, s.to, s.ticks, s.giveUp, s.gaveUp = t.target, peer{t.host, t.store}, 0, nil, false
	if idempotent(r) && t.body.repeats() {
		var ctx context.Context
		ctx, s.giveUp = context.WithCancelCause(r.Context())
		r = r.WithContext(ctx)
	}
	return r
}

// answered records that the host has answered or failed. It returns false if the gateway has given up the try before.
func (s *stay) answered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp = nil
	return !s.gaveUp
}

// tick counts the time of a stay. long reports whether the host is to be probed because of it.
func (s *stay) tick() (target *url.URL, to peer, long bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticks++
	return s.target, s.to, s.target != nil && s.ticks >= silentTicks
}

// leave ends the stay of a request at a silent host. A request that may be repeated goes to another member. Polls and
// streams end, and their clients begin another one. Other requests stay, because their outcome is open.
func (p *inflightRequest) leave(target *url.URL) {
	p.stay.mu.Lock()
	defer p.stay.mu.Unlock()
	switch {
	case p.stay.target != target:
	case p.stay.giveUp != nil:
		p.stay.gaveUp = true
		p.stay.giveUp(errHostSilent)
	case p.poll || p.stream:
		p.cancel(unavailable("the namespace cannot be reached at the moment: try again"))
	}
}

// hostWatch finds hosts that have stopped answering: their process is stopped or their network is cut, so that no
// connection fails for minutes. Its zero value is ready for use.
type hostWatch struct {
	mu      sync.Mutex
	probing map[*url.URL]bool
	failed  map[*url.URL]int // probes in a row
}

// begin reserves a probe of a host. It returns false while another one runs.
func (h *hostWatch) begin(target *url.URL) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.probing[target] {
		return false
	}
	if h.probing == nil {
		h.probing, h.failed = map[*url.URL]bool{}, map[*url.URL]int{}
	}
	h.probing[target] = true
	return true
}

// end records the result of a probe. It returns true if the host is silent.
func (h *hostWatch) end(target *url.URL, answered bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.probing, target)
	if answered {
		delete(h.failed, target)
		return false
	}
	h.failed[target]++
	return h.failed[target] >= silentProbes
}

// keep forgets the hosts that are not watched any more.
func (h *hostWatch) keep(watched map[*url.URL]peer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for target := range h.failed {
		if _, ok := watched[target]; !ok {
			delete(h.failed, target)
		}
	}
}

// watchHosts probes the hosts with requests that stay long, in the background. Requests leave a host that is silent,
// and later ones go to other members until a probe finds the host back.
func (g *Gateway) watchHosts(ctx context.Context) {
	watched := map[*url.URL]peer{}
	for _, p := range g.inflight.all() {
		if target, to, long := p.stay.tick(); long {
			watched[target] = to
		}
	}
	g.watch.keep(watched)
	for target, to := range watched {
		if !g.watch.begin(target) {
			continue
		}
		g.probes.Go(func() {
			answer, err := probe(ctx, g.transport, to, target, silentTimeout)
			if err == nil {
				answer.Body.Close()
			}
			if !g.watch.end(target, err == nil) || ctx.Err() != nil {
				return
			}
			if !g.away.has(target) {
				g.log.Warn("a host has stopped answering: its requests go to other members", "host", to.host, "error", err)
			}
			g.away.add(target)
			for _, p := range g.inflight.all() {
				p.leave(target)
			}
		})
	}
}
