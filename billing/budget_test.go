package billing

import (
	"math"
	"math/big"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/billing/money"
)

func TestAvailable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, reserved, settled, overrun, want money.Nano
	}{
		{10, 0, 0, 0, 10},
		{10, 1, 2, 3, 4},
		{10, 4, 3, 3, 0},
		{10, 0, 10, 5, -5},
		{10, math.MaxInt64, 0, 0, 10 - math.MaxInt64},
		{10, math.MaxInt64, math.MaxInt64, math.MaxInt64, 10 - math.MaxInt64},
		{0, math.MaxInt64, 1, 0, -math.MaxInt64},
	} {
		if got := Available(c.limit, c.reserved, Sums{c.settled, c.overrun}); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	for _, c := range []struct {
		available, amount money.Nano
		want              bool
	}{{1, 1, true}, {1, 2, false}, {1, 0, true}, {0, 0, false}, {-1, 0, false}} {
		if got := Admits(c.available, c.amount); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if got := Raise(math.MaxInt64, 1); got != math.MaxInt64 {
		t.Errorf("a limit raised beyond all is %d", got)
	}
}

// Settled and overrun together are the cost, and settled is at most the reservation.
func TestSettle(t *testing.T) {
	t.Parallel()
	amounts := rapid.Map(rapid.Int64Min(0), func(n int64) money.Nano { return money.Nano(n) })
	rapid.Check(t, func(t *rapid.T) {
		cost, reserved := amounts.Draw(t, "cost"), amounts.Draw(t, "reserved")
		s := Settle(cost, reserved)
		if s.Settled+s.Overrun != cost {
			t.Errorf("%d of %d: %+v has another sum", cost, reserved, s)
		}
		if s.Settled < 0 || s.Settled > reserved {
			t.Errorf("%d of %d: %+v settles less than nothing or more than the reserve", cost, reserved, s)
		}
		if s.Overrun < 0 || s.Overrun > 0 && s.Settled < reserved {
			t.Errorf("%d of %d: %+v overruns before the reserve is used", cost, reserved, s)
		}
	})
}

func TestReaches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spent, limit := rapid.Int64Min(0).Draw(t, "spent"), rapid.Int64Min(0).Draw(t, "limit")
		percent := rapid.Uint32Range(1, 1000).Draw(t, "percent")
		left := new(big.Int).Mul(big.NewInt(spent), big.NewInt(100))
		right := new(big.Int).Mul(big.NewInt(limit), big.NewInt(int64(percent)))
		if got, want := Reaches(money.Nano(spent), money.Nano(limit), percent), left.Cmp(right) >= 0; got != want {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// spending is one amount that was spent.
type spending struct {
	ns   int64
	sums Sums
}

// A rolling window counts every amount spent in it, and none older than the window by more than a slice.
// FallsTo returns the first moment with at most the given amount.
func TestRolling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Int64Range(1, 1e7).Draw(t, "length_ms")
		r := Rolling{LengthMs: length}
		var log []spending
		nowNs := rapid.Int64Range(0, 1e15).Draw(t, "now")
		for range rapid.IntRange(1, 60).Draw(t, "spendings") {
			nowNs += rapid.Int64Range(0, length*int64(time.Millisecond)/8).Draw(t, "passes")
			s := Sums{money.Nano(rapid.Int64Range(0, 1000).Draw(t, "settled")), money.Nano(rapid.Int64Range(0, 1000).Draw(t, "overrun"))}
			r.Add(s, nowNs)
			log = append(log, spending{nowNs, s})
			if rapid.IntRange(0, 20).Draw(t, "other length") == 0 {
				length = rapid.Int64Range(1, 1e7).Draw(t, "length_ms")
				was := r.Sums(nowNs)
				r = r.Over(length, nowNs)
				// Amounts that left the old window or lie outside the new one do not count.
				if now := r.Sums(nowNs); now.Spent() > was.Spent() {
					t.Fatalf("another length makes %+v of %+v", now, was)
				}
				log = nil
				for ns := oldest(r.Newest); len(r.Settled) > 0 && ns <= r.Newest; ns++ {
					if s := r.at(ns); s != (Sums{}) {
						log = append(log, spending{int64(ns) * sliceNs(length), s})
					}
				}
				continue
			}
			checkRolling(t, &r, log, nowNs)
		}
		most := money.Nano(rapid.Int64Range(0, 5000).Draw(t, "most"))
		at := r.FallsTo(most, nowNs)
		if got := r.Sums(at).Spent(); got > most {
			t.Fatalf("at %d it is %d, not %d", at, got, most)
		}
		if at > nowNs {
			if got := r.Sums(at - 1).Spent(); got <= most {
				t.Fatalf("just before %d it is %d already", at, got)
			}
		}
	})
}

func checkRolling(t *rapid.T, r *Rolling, log []spending, nowNs int64) {
	t.Helper()
	var atLeast, atMost money.Nano
	windowNs := r.LengthMs * int64(time.Millisecond)
	for _, l := range log {
		if l.ns > nowNs-windowNs {
			atLeast += l.sums.Spent()
		}
		if l.ns > nowNs-windowNs-2*sliceNs(r.LengthMs) {
			atMost += l.sums.Spent()
		}
	}
	if got := r.Sums(nowNs).Spent(); got < atLeast || got > atMost {
		t.Fatalf("it counts %d; what was spent in the window is from %d to %d", got, atLeast, atMost)
	}
}

// A longer window keeps the amounts of the shorter one.
func TestRollingOver(t *testing.T) {
	t.Parallel()
	hour, day := int64(time.Hour/time.Millisecond), int64(24*time.Hour/time.Millisecond)
	nowNs := int64(1_700_000_000 * time.Second)
	r := Rolling{LengthMs: hour}
	r.Add(Sums{5, 2}, nowNs)
	for _, length := range []int64{hour, day, hour, day / 2} {
		r = r.Over(length, nowNs)
		if got := r.Sums(nowNs); got != (Sums{5, 2}) {
			t.Errorf("over %d ms: %+v", length, got)
		}
	}
	// With a clock that went back, the window still contains the amounts.
	if got := r.Sums(nowNs - int64(time.Hour)); got != (Sums{5, 2}) {
		t.Errorf("earlier: %+v", got)
	}
}

func TestCalendar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, at   string
		period     Period
		start, end string
	}{
		{"UTC", "2026-11-21T23:50:00Z", Day, "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"UTC", "2026-11-21T00:00:00Z", Day, "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"UTC", "2026-11-22T12:00:00Z", Week, "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"}, // a Sunday
		{"UTC", "2026-11-23T00:00:00Z", Week, "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"}, // a Monday
		{"UTC", "2027-01-02T00:00:00Z", Week, "2026-12-28T00:00:00Z", "2027-01-04T00:00:00Z"},
		{"UTC", "2028-02-29T12:00:00Z", Month, "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"UTC", "2026-12-31T23:59:59.999999999Z", Month, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"Asia/Tokyo", "2026-11-21T15:00:00Z", Day, "2026-11-21T15:00:00Z", "2026-11-22T15:00:00Z"},
		// Days of 23 and 25 hours.
		{"Europe/Berlin", "2026-03-29T12:00:00Z", Day, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"Europe/Berlin", "2026-10-25T12:00:00Z", Day, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"Europe/Berlin", "2026-10-26T12:00:00Z", Week, "2026-10-25T23:00:00Z", "2026-11-01T23:00:00Z"},
		{"America/New_York", "2026-03-15T12:00:00Z", Month, "2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z"},
		// Midnight is skipped: the day starts at one.
		{"America/Sao_Paulo", "2018-11-04T12:00:00Z", Day, "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"America/Sao_Paulo", "2018-11-03T12:00:00Z", Day, "2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z"},
		// Midnight comes twice: the day starts at the first one.
		{"America/Havana", "2026-11-01T12:00:00Z", Day, "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"America/Havana", "2026-11-01T04:30:00Z", Day, "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		{"America/Havana", "2026-10-31T12:00:00Z", Day, "2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z"},
		// A minute after midnight the date goes back to the day before: the new day continues.
		{"America/St_Johns", "2006-10-29T02:30:30Z", Day, "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z"},
		{"America/St_Johns", "2006-10-29T03:00:00Z", Day, "2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z"},
		// The zone skipped a whole day.
		{"Pacific/Apia", "2011-12-30T09:00:00Z", Day, "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", "2011-12-30T10:00:00Z", Day, "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, c.at)
		if err != nil {
			t.Fatal(err)
		}
		start, end := c.period.Window(at, zone)
		if s, e := start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339); s != c.start || e != c.end {
			t.Errorf("%s %s %d: %s to %s, want %s to %s", c.zone, c.at, c.period, s, e, c.start, c.end)
		}
	}
}

// A window contains its moment, and the windows follow each other without a gap.
func TestCalendarWindowsMeet(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Beirut", "Africa/Cairo"}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		p := Period(rapid.IntRange(int(Day), int(Month)).Draw(t, "period"))
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0)
		for range 40 {
			start, end := p.Window(at, zone)
			if at.Before(start) || !at.Before(end) {
				t.Fatalf("%s lies outside of %s to %s", at, start, end)
			}
			if s, e := p.Window(end.Add(-1), zone); !s.Equal(start) || !e.Equal(end) {
				t.Fatalf("the window from %s to %s is at its end the one from %s to %s", start, end, s, e)
			}
			if next, _ := p.Window(end, zone); !next.Equal(end) {
				t.Fatalf("after %s comes %s", end, next)
			}
			at = end
		}
	})
}
