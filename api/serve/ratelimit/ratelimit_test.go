package ratelimit

import (
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A bucket admits its rate, neither more nor less.
func TestBucket(t *testing.T) {
	t.Parallel()
	var b Bucket
	p := perSecond(10, 5)
	now := time.Now().UnixNano()
	for i := range 5 {
		if wait := b.take(p, now); wait != 0 {
			t.Errorf("number %d of the burst waits %v", i, wait)
		}
	}
	if wait := b.take(p, now); wait != 100*time.Millisecond {
		t.Errorf("one too many waits %v", wait)
	}
	now += int64(100*time.Millisecond) - 1
	if wait := b.take(p, now); wait != 1 {
		t.Errorf("a nanosecond early: %v", wait)
	}
	if wait := b.take(p, now+1); wait != 0 {
		t.Errorf("in time: %v", wait)
	}
	// A long pause is worth a burst, and no more.
	now += int64(time.Hour)
	for range 5 {
		b.take(p, now)
	}
	if wait := b.take(p, now); wait == 0 {
		t.Error("six at once after a pause")
	}
	// Concurrent requests get the same burst.
	var many Bucket
	var through atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if many.take(p, now) == 0 {
					through.Add(1)
				}
			}
		})
	}
	if wg.Wait(); through.Load() != 5 {
		t.Errorf("%d were let through at once, want 5", through.Load())
	}
}

// Reservations follow each other at the rate, after the requests before them.
func TestReservationsKeepTheRate(t *testing.T) {
	t.Parallel()
	l := New(Limits{PerKey: 10, PerAddress: 5})
	var key Bucket
	now, from := time.Now(), netip.MustParseAddr("192.0.2.1")
	if err := l.allow(Buckets{Key: &key}, now); err != nil { // a request counts, too
		t.Fatal(err)
	}
	for i := range 5 {
		if wait := l.Reserve(&key, from, now); wait != 0 {
			t.Errorf("number %d waits %v", i, wait)
		}
	}
	// From here on the address is slower than the key.
	for i := range 3 {
		if wait := l.Reserve(&key, from, now); wait != time.Duration(i+1)*200*time.Millisecond {
			t.Errorf("number %d that is too fast for its address waits %v", i, wait)
		}
	}
	// From another address only the key limits: nine of its ten requests are used.
	elsewhere := netip.MustParseAddr("192.0.2.2")
	for i, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond} {
		if wait := l.Reserve(&key, elsewhere, now); wait != want {
			t.Errorf("reservation %d of the key waits %v, want %v", i, wait, want)
		}
	}
	if err := l.allow(Buckets{Key: &key}, now); err == nil {
		t.Error("a request was admitted before the reservations")
	}
	if key.Full(now.Add(time.Second)) || !key.Full(now.Add(2*time.Second)) {
		t.Error("the bucket is not full exactly when all its reservations are over")
	}
	var none Limiter
	if wait := none.Reserve(nil, from, now); wait != 0 || none.Any() {
		t.Errorf("without limits one waits %v", wait)
	}
}

// Only listed proxies are trusted, and of a chain only the hops that they wrote.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	s := New(Limits{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
	for _, c := range []struct {
		remote string
		header []string
		want   string
	}{
		{"203.0.113.9:55", nil, "203.0.113.9"},
		{"203.0.113.9:55", []string{"X-Forwarded-For: 198.51.100.1"}, "203.0.113.9"},
		{"203.0.113.9:55", []string{"Forwarded: for=198.51.100.1", "X-Real-IP: 198.51.100.1"}, "203.0.113.9"},
		{"10.1.2.3:55", nil, "10.1.2.3"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		{"[::ffff:10.1.2.3]:55", []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 1.1.1.1, 198.51.100.1, 10.9.9.9"}, "198.51.100.1"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 10.7.7.7, 10.8.8.8"}, "10.7.7.7"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 1.1.1.1, nonsense"}, "10.1.2.3"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 1.1.1.1, nonsense, 10.9.9.9"}, "10.9.9.9"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: "}, "10.1.2.3"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: 198.51.100.1:4711"}, "198.51.100.1"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: [2001:db8::1]:4711"}, "2001:db8::1"},
		{"[fd00::1]:55", []string{"Forwarded: for=1.1.1.1, For=\"[2001:db8::1]:99\";proto=https"}, "2001:db8::1"},
		{"10.1.2.3:55", []string{"Forwarded: for=1.1.1.1, proto=https"}, "10.1.2.3"},
		{"10.1.2.3:55", []string{"Forwarded: for=unknown"}, "10.1.2.3"},
		{"10.1.2.3:55", []string{"X-Real-IP: 198.51.100.1"}, "198.51.100.1"},
		{"10.1.2.3:55", []string{"X-Real-IP: 1.1.1.1", "X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		{"10.1.2.3:55", []string{"X-Forwarded-For: " + strings.Repeat("10.0.0.1,", 1000) + "10.0.0.2"}, "10.0.0.1"},
		{"@", []string{"X-Forwarded-For: 198.51.100.1"}, "invalid IP"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		for _, line := range c.header {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Add(name, value)
		}
		if got := s.ClientAddress(r).String(); got != c.want {
			t.Errorf("from %s with %.60q: %s, want %s", c.remote, c.header, got, c.want)
		}
	}
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		limits Limits
		good   bool
	}{
		{Limits{PerKey: MaxRate, PerAddress: MaxRate, Failures: MaxRate, Proxies: make([]netip.Prefix, MaxProxies)}, true},
		{Limits{PerNamespace: MaxRate, PerOrg: MaxRate}, true},
		{Limits{PerKey: MaxRate + 1}, false},
		{Limits{PerNamespace: MaxRate + 1}, false},
		{Limits{PerOrg: -1}, false},
		{Limits{PerAddress: -1}, false},
		{Limits{Failures: MaxRate + 1}, false},
		{Limits{Proxies: make([]netip.Prefix, MaxProxies+1)}, false},
	} {
		if err := c.limits.Check(); (err == nil) != c.good {
			t.Errorf("%d: %v", i, err)
		}
	}
}
