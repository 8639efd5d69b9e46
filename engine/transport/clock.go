package transport

import (
	"encoding/binary"
	"slices"
	"time"
)

const (
	// pingEvery is the interval at which each connected peer is asked for its clock.
	pingEvery = time.Second
	// A connection is ended if nothing has arrived on it at more than maxMissedPings successive pings: in
	// each second at least a ping or its answer should arrive. Without this limit, a connection whose packets
	// are dropped stays open for minutes. It counts pings and not seconds, and only pings that were sent on
	// time, so that a process that was suspended or starved does not end all its connections.
	maxMissedPings = 3
	// maxPingDelay is how late a ping may be and still count.
	maxPingDelay = pingEvery / 4
	// The offset is chosen from the newest pings, as many as samples. The quickest of them was disturbed
	// least. Older pings describe a clock that may have changed.
	samples = 8
)

// clock holds the measurements of a peer's clock. The zero clock has none.
type clock struct {
	recent [samples]sample
	count  int           // pings answered
	newest time.Duration // round trip of the newest ping
}

type sample struct{ trip, offset time.Duration }

func (c *clock) add(s sample) {
	c.recent[c.count%samples] = s
	c.newest = s.trip
	c.count++
}

func (c *clock) measured() bool { return c.count > 0 }

func (c *clock) offset() time.Duration {
	var best sample
	for i, s := range c.recent[:min(c.count, samples)] {
		if i == 0 || s.trip < best.trip {
			best = s
		}
	}
	return best.offset
}

// measure computes the round trip and the offset (the peer's clock less this node's) as NTP does. sent and
// back are by this node's clock, arrived and answered by the peer's.
func measure(sent, arrived, answered, back time.Time) sample {
	return sample{
		trip:   max(0, back.Sub(sent)-answered.Sub(arrived)),
		offset: (arrived.Sub(sent) + answered.Sub(back)) / 2,
	}
}

// watch pings the peers and ends dead connections.
func (t *Transport) watch() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case due := <-tick.C:
			t.pingAll(onTime(last, due, time.Now()))
			last = due
		case <-t.ctx.Done():
			return
		}
	}
}

// onTime reports whether a ping is sent about when it is due, and about one interval after the last.
func onTime(last, due, now time.Time) bool {
	return due.Sub(last) < pingEvery+maxPingDelay && now.Sub(due) < maxPingDelay
}

func (t *Transport) pingAll(counts bool) {
	var ping, dead []*conn
	t.mu.Lock()
	for _, p := range t.peers {
		all := p.connections()
		for _, c := range all {
			if c.isDead(counts) {
				dead = append(dead, c)
			}
		}
		if i := slices.IndexFunc(all, func(c *conn) bool { return !c.impostor.Load() }); i >= 0 {
			ping = append(ping, all[i]) // the one that this node opened, if there is one
		}
	}
	t.mu.Unlock()
	for _, c := range dead {
		c.fail(errUnresponsive)
	}
	for _, c := range ping {
		c.ping()
	}
}

// isDead reports whether too many pings have brought no sign of life. It is called once for each ping, which
// counts only if counts is set. The caller holds t.mu.
func (c *conn) isDead(counts bool) bool {
	if heard := c.lastSeen.Load(); heard != c.checked {
		c.checked, c.quiet = heard, 0
	} else if counts {
		c.quiet++
	}
	return c.quiet > maxMissedPings
}

// ping asks for the peer's clock. An unanswered earlier ping is forgotten.
func (c *conn) ping() {
	c.mu.Lock()
	c.pings++
	c.pinged = c.t.now()
	h := header{kind: framePing, request: c.pings}
	c.mu.Unlock()
	c.enqueueUrgent(&message{header: h})
}

// answerPing sends the time of the ping's arrival and of the answer.
func (c *conn) answerPing(h header) {
	now := uint64(c.t.now().UnixNano())
	b := binary.BigEndian.AppendUint64(nil, now)
	b = binary.BigEndian.AppendUint64(b, now) // the same, because nothing was waited for in between
	c.enqueueUrgent(&message{header: header{kind: framePong, request: h.request}, payload: b})
}

func (c *conn) handlePong(h header, b []byte) error {
	if len(b) != 16 {
		return malformed("an answer to a ping of %d bytes", len(b))
	}
	arrived := time.Unix(0, int64(binary.BigEndian.Uint64(b)))
	answered := time.Unix(0, int64(binary.BigEndian.Uint64(b[8:])))
	back := c.t.now()
	c.mu.Lock()
	sent, current := c.pinged, h.request == c.pings
	c.mu.Unlock()
	if !current || c.impostor.Load() {
		return nil
	}
	c.t.mu.Lock()
	c.t.peer(c.peer).clock.add(measure(sent, arrived, answered, back))
	c.t.mu.Unlock()
	return nil
}
