package server

import (
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy"
)

// A bucket lets through what its pace says, neither more nor less.
func TestBucket(t *testing.T) {
	t.Parallel()
	var b bucket
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
	// The same from many at once.
	var many bucket
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

// Limits count per key, per address and per failure, and say when to come again.
func TestDoorLimits(t *testing.T) {
	t.Parallel()
	later := &clock{}
	start := time.Now()
	n := startNode(t, func(c *Config) {
		c.Limits = DoorLimits{PerKey: 4, PerAddress: 100, Failures: 2}
		c.Now = func() time.Time { return start.Add(time.Duration(later.ahead.Load())) }
	})
	mine, other := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}}), n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	from := func(address, key string) answer {
		r := httptest.NewRequest("GET", "/api/v1/queues", nil)
		r.RemoteAddr = address
		r.Header.Set("X-API-Key", key)
		w := serveOnce(n.server, r)
		return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	}
	limited := func(a answer) {
		t.Helper()
		if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); a.status != 429 || a.problem(t).Code != api.RateLimited || err != nil || seconds < 1 {
			t.Errorf("%d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
		}
	}
	good := func(a answer) {
		t.Helper()
		if a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	const here, there = "192.0.2.1:1", "192.0.2.2:1"
	for range 4 {
		good(from(here, mine))
	}
	limited(from(here, mine))
	limited(from(there, mine)) // wherever it comes from
	good(from(here, other))
	later.ahead.Add(int64(time.Second / 4))
	good(from(there, mine))
	limited(from(there, mine))

	// Failures: a burst of five seconds' halves, then refused without being looked at; a
	// good key from there still opens.
	for i := range 5 {
		if a := from(there, "garbage"); a.status != 401 {
			t.Errorf("failure %d: %d %s", i, a.status, a.body)
		}
	}
	limited(from(there, "garbage"))
	good(from(there, other))
	if a := from(here, "garbage"); a.status != 401 {
		t.Errorf("from another address: %d %s", a.status, a.body)
	}

	// Everything from one address; addresses of one IPv6 network are one.
	later.ahead.Add(int64(time.Minute))
	for i := range 100 {
		if got := n.server.limits.arrives(netip.MustParseAddr("2001:db8::"+strconv.FormatInt(int64(i), 16)), n.server.cfg.Now()); got != nil {
			t.Fatalf("number %d: %v", i, got)
		}
	}
	limited(from("[2001:db8::ffff]:9", other))
	good(from("[2001:db8:0:1::1]:9", other))
}

// Parked polls and streams that ask again whether they may go on are no requests.
func TestRecheckTakesNothing(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *Config) { c.Limits = DoorLimits{PerKey: 1} })
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	got := make(chan answer, 1)
	go func() { got <- n.ask("POST", "/api/v1/fetch", key, `{"queues":["q"],"timeout":60}`) }()
	n.parked(1)
	for range 20 {
		n.server.cfg.Host.Recheck(tenancy.Default)
	}
	if _, err := n.client(n.admin).Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.status != 200 {
		t.Errorf("the poll ended with %d %s", a.status, a.body)
	}
}

// Only proxies that were named are believed, and of a chain only what they have written.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{Limits: DoorLimits{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}}}
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
		if got := s.clientAddress(r).String(); got != c.want {
			t.Errorf("from %s with %.60q: %s, want %s", c.remote, c.header, got, c.want)
		}
	}
}

// What a proxy says of whom it forwards for is what the audit log says.
func TestAuditBelievesProxies(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *Config) { c.Limits = DoorLimits{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}} })
	if a := n.send("POST", "/api/v1/queues/q/pause", n.admin, "", "X-Forwarded-For: 1.1.1.1, 198.51.100.7"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := n.newest(); got.Remote != "198.51.100.7" {
		t.Errorf("the record says %+v", got)
	}
}

// Limits and custom roles cost a request no memory.
func TestAuthenticateAllocations(t *testing.T) {
	n := startNode(t, func(c *Config) { c.Limits = DoorLimits{PerKey: MaxRate, PerAddress: MaxRate, Failures: MaxRate} })
	if _, err := n.client(n.admin).PutRole(t.Context(), "r", api.RoleRequest{Permissions: []string{"job.work"}}, 0); err != nil {
		t.Fatal(err)
	}
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker, "r"}, QueueScope: []tenancy.Glob{"a.*", "b"}})
	r := httptest.NewRequest("POST", "/api/v1/fetch", nil)
	r.Header.Set("X-API-Key", key)
	n.server.limits.perKey = pace{time.Nanosecond, 1 << 40}
	got := testing.AllocsPerRun(200, func() {
		if _, err := n.server.authenticate(r); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1 { // the key's id, to be looked up
		t.Errorf("authenticate allocates %v times, want 1", got)
	}
}

func TestDoorLimitsAreChecked(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		limits DoorLimits
		good   bool
	}{
		{DoorLimits{PerKey: MaxRate, PerAddress: MaxRate, Failures: MaxRate, Proxies: make([]netip.Prefix, MaxProxies)}, true},
		{DoorLimits{PerKey: MaxRate + 1}, false},
		{DoorLimits{PerAddress: -1}, false},
		{DoorLimits{Failures: MaxRate + 1}, false},
		{DoorLimits{Proxies: make([]netip.Prefix, MaxProxies+1)}, false},
	} {
		if err := c.limits.check(); (err == nil) != c.good {
			t.Errorf("%d: %v", i, err)
		}
	}
}
