package job

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rule is a rate limit.
type rule struct {
	limit    uint32
	windowMs int64
}

func (r rule) window() int64 { return r.windowMs * int64(time.Millisecond) }

// within returns the number of takes in the closed window that ends at endNs.
func within(takes []int64, endNs, windowNs int64) (n uint32) {
	for i := len(takes) - 1; i >= 0 && takes[i] >= endNs-windowNs; i-- {
		n++
	}
	return n
}

var rules = rapid.Custom(func(t *rapid.T) rule {
	return rule{
		limit:    rapid.SampledFrom([]uint32{1, 2, 3, 7, 64, 65, 100}).Draw(t, "limit"),
		windowMs: rapid.SampledFrom([]int64{1, 7, 64, 1000, 1001, 60_000, 86_400_000}).Draw(t, "window_ms"),
	}
})

// step draws how far the clock moves between two takes: mostly by parts of the window, often not at all.
func step(t *rapid.T, r rule) int64 {
	part := r.window() / rapid.SampledFrom([]int64{1, 2, 10, 64, 65, 1000}).Draw(t, "part of the window")
	return rapid.SampledFrom([]int64{0, 0, 1, max(part-1, 0), part, part + 1}).Draw(t, "step")
}

// Under any load, no window has more takes than the limit, and FreeAt returns the first moment at which Free
// allows a take.
func TestNoWindowHasMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rules.Draw(t, "rule")
		now := rapid.Int64Range(0, 1<<60).Draw(t, "clock")
		var w RateWindow
		var takes []int64
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			at := w.FreeAt(r.limit, r.windowMs, now)
			if (at == now) != (w.Free(r.limit, r.windowMs, now) > 0) {
				t.Fatalf("free at %d, and %d are free at %d", at, w.Free(r.limit, r.windowMs, now), now)
			}
			if at > now {
				if w.Free(r.limit, r.windowMs, at-1) > 0 || w.Free(r.limit, r.windowMs, at) == 0 {
					t.Fatalf("%d is not the first moment that is free", at)
				}
				if rapid.Bool().Draw(t, "wait for it") {
					now = at
				}
			}
			want := rapid.Uint32Range(0, r.limit).Draw(t, "wanted")
			for range min(want, w.Free(r.limit, r.windowMs, now)) {
				w.Take(r.windowMs, now)
				takes = append(takes, now)
			}
			if n := within(takes, now, r.window()); n > r.limit {
				t.Fatalf("%d takes in a window of %d ms; the limit is %d", n, r.windowMs, r.limit)
			}
			now += step(t, r)
		}
	})
}

// A changed rule holds from the change on, also for the takes that the earlier rule still remembered.
func TestAChangedRuleIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(0, 1<<60).Draw(t, "clock")
		var w RateWindow
		var takes []int64 // those that every rule since has remembered
		for range rapid.IntRange(1, 8).Draw(t, "rules") {
			r := rules.Draw(t, "rule")
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				for range min(rapid.Uint32Range(0, 20).Draw(t, "wanted"), w.Free(r.limit, r.windowMs, now)) {
					w.Take(r.windowMs, now)
					takes = append(takes, now)
					if n := within(takes, now, r.window()); n > r.limit {
						t.Fatalf("%d takes in a window of %d ms; the limit is %d", n, r.windowMs, r.limit)
					}
				}
				now += step(t, r)
			}
			// The next rule may forget the takes that have left this window.
			takes = takes[len(takes)-int(within(takes, now, r.window())):]
		}
	})
}

func TestSaturationReachesTheLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []uint32{1, 10, 1000} {
		for _, windowMs := range []int64{1000, 60_000, 86_400_000} {
			var w RateWindow
			start := int64(1_700_000_000_000_000_123)
			taken, now := uint64(0), start
			const windows = 200
			for end := start + windows*(rule{limit, windowMs}).window(); now < end; {
				for w.Free(limit, windowMs, now) > 0 {
					w.Take(windowMs, now)
					taken++
				}
				now = w.FreeAt(limit, windowMs, now)
			}
			if most := uint64(windows) * uint64(limit); taken*100 < most*98 {
				t.Errorf("%d in %d ms: %d were taken of %d", limit, windowMs, taken, most)
			}
		}
	}
}

func TestAWindowTakesTheSameRoomAlways(t *testing.T) {
	t.Parallel()
	var w RateWindow
	for now := int64(1_700_000_000_000_000_000); now < 1_700_000_000_000_000_000+int64(time.Minute); now += int64(time.Millisecond) {
		w.Take(1000, now)
	}
	if len(w.Counts) != RateSlices+1 || w.SizeVT() > 600 {
		t.Errorf("it has %d slices and takes %d bytes", len(w.Counts), w.SizeVT())
	}
	if n := w.Free(1<<32-1, 1000, 0); n != 1<<32-1-w.sum() {
		t.Errorf("with the clock behind, %d are free", n)
	}
}

func (r *RateWindow) sum() (n uint32) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

func TestALimitOfNothingIsNeverFree(t *testing.T) {
	t.Parallel()
	var w *RateWindow
	if w.Free(0, 1000, 5) != 0 || w.FreeAt(0, 1000, 5) != neverNs {
		t.Error("it is free")
	}
	if w.Free(3, 1000, 5) != 3 || w.FreeAt(3, 1000, 5) != 5 {
		t.Error("a window that nobody took from is not free")
	}
}

// TakeN counts all its takes, and a slice counts up to its capacity and no more.
func TestTakingMany(t *testing.T) {
	t.Parallel()
	const window, at = int64(60_000), int64(1_700_000_000 * time.Second)
	r := &RateWindow{}
	r.TakeN(700, window, at)
	r.TakeN(300, window, at+int64(30*time.Second))
	later := at + int64(40*time.Second)
	if n := r.Taken(window, later); n != 1000 {
		t.Errorf("%d were taken", n)
	}
	if ns := r.FallsTo(1000, window, later); ns != later {
		t.Errorf("it falls to what it is %s later", time.Duration(ns-later))
	}
	// The first go after a minute, and up to one slice.
	ns := r.FallsTo(999, window, later)
	if left := time.Duration(ns - at); left < time.Minute || left > time.Minute+time.Minute/RateSlices {
		t.Errorf("it falls below after %s", left)
	}
	if before, after := r.Taken(window, ns-1), r.Taken(window, ns); before != 1000 || after != 300 {
		t.Errorf("%d are counted before that, %d then", before, after)
	}
	if ns := r.FallsTo(0, window, later); r.Taken(window, ns) != 0 || r.Taken(window, ns-1) == 0 {
		t.Errorf("it falls to nothing at %d", ns)
	}

	full := &RateWindow{}
	full.TakeN(math.MaxUint64, window, at)
	full.TakeN(5, window, at)
	if n := full.Taken(window, at); n != math.MaxUint32 {
		t.Errorf("a full slice counts %d", n)
	}
	if n := full.Over(1000*window, at).Taken(1000*window, at); n != math.MaxUint32 {
		t.Errorf("in longer slices it counts %d", n)
	}
	var none *RateWindow
	if none.Taken(window, at) != 0 || none.FallsTo(0, window, at) != at {
		t.Error("none has had something taken")
	}
}
