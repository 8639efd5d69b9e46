package server

import (
	"testing"
	"time"
)

// The rate of a namespace holds over all its streams: their writes follow one another at the interval that
// their cost requires.
func TestEventRate(t *testing.T) {
	t.Parallel()
	const perSecond = 1 << 20
	now := time.Unix(1000, 0)
	rate := eventRate{perSecond: perSecond}
	var wait time.Duration
	for range 1000 {
		next := rate.reserve(now, eventWriteCost)
		if next < wait {
			t.Fatalf("a turn after %v behind one after %v", next, wait)
		}
		wait = next
	}
	want := time.Duration(999)*time.Second*eventWriteCost/perSecond - eventBurst
	if diff := wait - want; diff < -time.Millisecond || diff > time.Millisecond {
		t.Errorf("the thousandth turn comes after %v, want %v", wait, want)
	}
	// A write that cost more than expected delays the later ones.
	rate.adjust(perSecond)
	if next := rate.reserve(now, eventWriteCost); next < wait+time.Second {
		t.Errorf("after %v, %v behind a megabyte", next, wait)
	}
	// After a pause the rate allows only a burst.
	later := now.Add(time.Hour)
	for at, total := time.Duration(0), int64(0); at == 0; total += eventWriteCost {
		if at = rate.reserve(later, eventWriteCost); total > perSecond*int64(eventBurst)/int64(time.Second)+eventWriteCost {
			t.Fatalf("%d bytes at once", total)
		}
	}
}
