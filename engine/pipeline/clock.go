package pipeline

import "time"

// slew limits a correction of the clock to 1/64 of the elapsed time. So the clock makes up one second in
// about a minute, and a correction can never turn it back.
const slew = 64

// clock provides the time of entries, in Unix nanoseconds. It follows monotonic time, corrects itself slowly
// towards wall time, and never falls: setting the wall clock back or forward only changes its pace.
type clock struct {
	ns   int64
	read time.Time
}

// anchor starts the clock at the later of now and lastNs.
func (c *clock) anchor(now time.Time, lastNs int64) {
	c.ns, c.read = max(now.UnixNano(), lastNs), now
}

// next advances the clock to now and returns it.
func (c *clock) next(now time.Time) int64 {
	step := max(0, now.Sub(c.read).Nanoseconds())
	c.read = now
	c.ns += step
	c.ns += min(max(now.UnixNano()-c.ns, -step/slew), step/slew)
	return c.ns
}
