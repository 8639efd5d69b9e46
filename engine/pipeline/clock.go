package pipeline

import "time"

// slew is the part of elapsed time by which the clock may be put right: 1/64
// makes up a second in about a minute, and can never turn the clock back.
const slew = 64

// clock gives entries their time, in Unix nanoseconds. It follows monotonic
// time, leaning towards wall time, and never falls: a wall clock that is set back
// or forth only changes its pace.
type clock struct {
	ns   int64
	read time.Time
}

// anchor starts the clock at the later of now and lastNs.
func (c *clock) anchor(now time.Time, lastNs int64) {
	c.ns, c.read = max(now.UnixNano(), lastNs), now
}

// next is the clock at now.
func (c *clock) next(now time.Time) int64 {
	step := max(0, now.Sub(c.read).Nanoseconds())
	c.read = now
	c.ns += step
	c.ns += min(max(now.UnixNano()-c.ns, -step/slew), step/slew)
	return c.ns
}

// Bounds of the RetryAfter of a refusal.
const (
	MinRetryAfter = 50 * time.Millisecond
	MaxRetryAfter = 30 * time.Second
)

// rateWindow is how long the log is busy before the rate follows.
const rateWindow = 250 * time.Millisecond

// rate is how many ops a second were applied lately, of the time in which there
// were any: an idle log is not a slow one.
type rate struct {
	entries   int // in flight
	from      time.Time
	busy      time.Duration
	ops       int
	perSecond float64
}

// begin counts an entry that goes into flight.
func (r *rate) begin(now time.Time) {
	if r.entries == 0 {
		r.from = now
	}
	r.entries++
}

// end counts an entry that comes back with ops applied.
func (r *rate) end(now time.Time, ops int) {
	r.entries--
	r.ops += ops
	r.busy += now.Sub(r.from)
	r.from = now
	if r.busy < rateWindow {
		return
	}
	measured := float64(r.ops) / r.busy.Seconds()
	if r.perSecond == 0 {
		r.perSecond = measured
	} else {
		r.perSecond = (r.perSecond + measured) / 2
	}
	r.busy, r.ops = 0, 0
}

// drain is how long a backlog takes at the present rate; a log that has not
// applied anything yet is taken for a slow one.
func (r *rate) drain(ops int) time.Duration {
	if r.perSecond == 0 {
		return time.Second
	}
	d := time.Duration(float64(ops) / r.perSecond * float64(time.Second))
	return min(max(d, MinRetryAfter), MaxRetryAfter)
}
