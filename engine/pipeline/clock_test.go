package pipeline

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestClockAnchor(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for _, test := range []struct{ last, want int64 }{
		{0, now.UnixNano()},
		{now.UnixNano() - 1, now.UnixNano()},
		{now.UnixNano() + 1e9, now.UnixNano() + 1e9},
	} {
		var c clock
		c.anchor(now, test.last)
		if got := c.next(now); got != test.want {
			t.Errorf("anchored after %d: %d, want %d", test.last, got, test.want)
		}
	}
}

// TestClockMeetsWall checks that a clock ahead of the wall clock slows down until the two agree.
func TestClockMeetsWall(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var c clock
	c.anchor(now, now.Add(time.Second).UnixNano())
	for range slew - 1 {
		now = now.Add(time.Second)
		if c.next(now) <= now.UnixNano() {
			t.Fatal("met the wall faster than it may")
		}
	}
	now = now.Add(time.Second)
	if got := c.next(now); got != now.UnixNano() {
		t.Errorf("after %d s it is %v off", slew, time.Duration(got-now.UnixNano()))
	}
}

// TestClockNeverFalls checks that the clock never falls and never jumps, however the wall clock is set: each
// step differs from the elapsed time by the slew at most.
func TestClockNeverFalls(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		var c clock
		c.anchor(now, rapid.Int64Range(0, 2*now.UnixNano()).Draw(t, "last"))
		last := c.ns
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			step := rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "step")
			now = now.Add(time.Duration(step))
			got := c.next(now)
			gone := max(0, step)
			if moved := got - last; moved < gone-gone/slew || moved > gone+gone/slew {
				t.Fatalf("in %d the clock moved by %d", gone, moved)
			}
			last = got
		}
	})
}
