package pipeline

import "time"

// These constants bound the RetryAfter of a refusal.
const (
	MinRetryAfter = 50 * time.Millisecond
	MaxRetryAfter = 30 * time.Second
)

// The rate is updated after each rateWindow of busy time of the log.
const rateWindow = 250 * time.Millisecond

// rate measures the ops applied per second of busy time: time with at least one entry in flight. Idle time is
// left out, because an idle log is not a slow one.
type rate struct {
	entries   int // in flight
	from      time.Time
	busy      time.Duration
	ops       int
	perSecond float64
}

// begin counts an entry that was appended.
func (r *rate) begin(now time.Time) {
	if r.entries == 0 {
		r.from = now
	}
	r.entries++
}

// end counts an entry that has returned, and the ops it applied.
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

// drain returns the time that a backlog takes at the present rate. Until the log was busy for a rateWindow,
// drain assumes that a backlog takes a second.
func (r *rate) drain(ops int) time.Duration {
	if r.perSecond == 0 {
		return time.Second
	}
	d := time.Duration(float64(ops) / r.perSecond * float64(time.Second))
	return min(max(d, MinRetryAfter), MaxRetryAfter)
}
