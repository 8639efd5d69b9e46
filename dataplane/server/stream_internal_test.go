package server

import (
	"testing"
	"time"
)

// Frames above the rate are spread over time, except for a burst.
func TestStreamPace(t *testing.T) {
	t.Parallel()
	p, now := framePace{every: time.Second / DefaultStreamRate}, time.Now()
	var waited time.Duration
	for range streamAhead {
		waited = max(waited, p.next(now))
	}
	if waited > 0 {
		t.Errorf("one of the first %d waits %v", streamAhead, waited)
	}
	for range DefaultStreamRate {
		waited = p.next(now)
	}
	if waited != time.Second {
		t.Errorf("as many as are read in a second take %v", waited)
	}
	var none framePace
	for range 2 {
		if none.next(now) != 0 {
			t.Error("there is no rate, and one waits")
		}
	}
}

// Errors in a row slow a stream down, more and more up to a bound.
func TestStreamSlows(t *testing.T) {
	t.Parallel()
	x := &stream{}
	last := x.slowed()
	if last != 0 {
		t.Errorf("without an error it is slowed by %v", last)
	}
	for range 100 {
		x.failing.Add(1)
		if now := x.slowed(); now < last || now > streamSlowest || now < streamSlow {
			t.Errorf("after %v comes %v", last, now)
		} else {
			last = now
		}
	}
	if last != streamSlowest {
		t.Errorf("a hundred errors slow it by %v", last)
	}
}
