package transport

import (
	"encoding/binary"
	"slices"
	"time"
)

const (
	// pingEvery is how often each connected peer is asked for its clock.
	pingEvery = time.Second
	// silence ends a connection on which nothing comes for more pings: each second
	// at least a ping or its answer should. A connection that packets are dropped on
	// does not end by itself for minutes. Pings are counted and not seconds, and only
	// those that were sent in time, so that a process that did not run for a while, or
	// is starved, does not end all it has.
	silence = 3
	// lateness is how late a ping may be to count: by as much its answer may be, too.
	lateness = pingEvery / 4
	// samples is how many pings the offset is chosen from. The quickest of them was
	// disturbed least; older ones say where the clock was before.
	samples = 8
)

// clock is what pings have told of a peer's clock. The zero clock knows nothing.
type clock struct {
	recent [samples]sample
	count  int           // pings answered
	newest time.Duration // the round trip of the newest
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

// measure is NTP's: sent and back are by our clock, arrived and answered by the
// peer's.
func measure(sent, arrived, answered, back time.Time) sample {
	return sample{
		trip:   max(0, back.Sub(sent)-answered.Sub(arrived)),
		offset: (arrived.Sub(sent) + answered.Sub(back)) / 2,
	}
}

// watch pings the peers and ends connections that are dead.
func (t *Transport) watch() {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	var last time.Time
	for {
		select {
		case due := <-tick.C:
			t.pingAll(inTime(last, due, time.Now()))
			last = due
		case <-t.ctx.Done():
			return
		}
	}
}

// inTime says whether a ping that was due is sent as long behind the last as it
// should be, at about the time it should be.
func inTime(last, due, now time.Time) bool {
	return due.Sub(last) < pingEvery+lateness && now.Sub(due) < lateness
}

func (t *Transport) pingAll(counts bool) {
	var ping, dead []*conn
	t.mu.Lock()
	for _, p := range t.peers {
		all := p.connections()
		for _, c := range all {
			if c.silent(counts) {
				dead = append(dead, c)
			}
		}
		if i := slices.IndexFunc(all, func(c *conn) bool { return !c.stranger.Load() }); i >= 0 {
			ping = append(ping, all[i]) // ours, if there is one
		}
	}
	t.mu.Unlock()
	for _, c := range dead {
		c.fail(errSilent)
	}
	for _, c := range ping {
		c.ping()
	}
}

// silent is asked at each ping; not all count. t.mu is held.
func (c *conn) silent(counts bool) bool {
	if heard := c.heard.Load(); heard != c.checked {
		c.checked, c.quiet = heard, 0
	} else if counts {
		c.quiet++
	}
	return c.quiet > silence
}

// ping asks for the peer's clock. A ping whose answer has not come is forgotten.
func (c *conn) ping() {
	c.mu.Lock()
	c.pings++
	c.pinged = c.t.now()
	h := header{kind: framePing, request: c.pings}
	c.mu.Unlock()
	c.hurry(&message{header: h})
}

// pong answers with the time of the ping's arrival and of the answer.
func (c *conn) pong(h header) {
	now := uint64(c.t.now().UnixNano())
	b := binary.BigEndian.AppendUint64(nil, now)
	b = binary.BigEndian.AppendUint64(b, now) // nothing was waited for in between
	c.hurry(&message{header: header{kind: framePong, request: h.request}, payload: b})
}

func (c *conn) ponged(h header, b []byte) error {
	if len(b) != 16 {
		return malformed("an answer to a ping of %d bytes", len(b))
	}
	arrived := time.Unix(0, int64(binary.BigEndian.Uint64(b)))
	answered := time.Unix(0, int64(binary.BigEndian.Uint64(b[8:])))
	back := c.t.now()
	c.mu.Lock()
	sent, current := c.pinged, h.request == c.pings
	c.mu.Unlock()
	if !current || c.stranger.Load() {
		return nil
	}
	c.t.mu.Lock()
	c.t.peer(c.peer).clock.add(measure(sent, arrived, answered, back))
	c.t.mu.Unlock()
	return nil
}
