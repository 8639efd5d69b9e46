package server_test

import (
	"net/http/httptest"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// The server limits the rate per key, per address and of failures, and sends Retry-After.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	later := &clock{}
	start := time.Now()
	n := startNode(t, func(c *server.Config) {
		c.Limits = ratelimit.Limits{PerKey: 4, PerAddress: 100, Failures: 2}
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
		a.wantRetry(t, api.RateLimited)
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
	limited(from(there, mine)) // from any address
	good(from(here, other))
	later.ahead.Add(int64(time.Second / 4))
	good(from(there, mine))
	limited(from(there, mine))

	// Failures: a burst of five seconds at half a failure each, then requests are refused unread; a valid key
	// from the same address is still accepted.
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

	// All requests from one address; the addresses of one IPv6 network count as one.
	later.ahead.Add(int64(time.Minute))
	for i := range 100 {
		if got := n.server.AllowAddress(netip.MustParseAddr("2001:db8::" + strconv.FormatInt(int64(i), 16))); got != nil {
			t.Fatalf("number %d: %v", i, got)
		}
	}
	limited(from("[2001:db8::ffff]:9", other))
	good(from("[2001:db8:0:1::1]:9", other))
}

// The repeated checks of parked polls and streams do not count as requests.
func TestRecheckTakesNothing(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) { c.Limits = ratelimit.Limits{PerKey: 1} })
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	got := make(chan answer, 1)
	go func() { got <- n.ask("POST", "/api/v1/fetch", key, `{"queues":["q"],"timeout":60}`) }()
	n.parked(1)
	for range 20 {
		n.server.Config().Host.Recheck(tenancy.Default)
	}
	if _, err := n.client(n.admin).Enqueue(t.Context(), api.EnqueueRequest{Queue: "q"}); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.status != 200 {
		t.Errorf("the poll ended with %d %s", a.status, a.body)
	}
}

// The audit log shows the client's address as a trusted proxy gives it.
func TestAuditBelievesProxies(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(c *server.Config) {
		c.Limits = ratelimit.Limits{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	})
	if a := n.send("POST", "/api/v1/queues/q/pause", n.admin, "", "X-Forwarded-For: 1.1.1.1, 198.51.100.7"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := n.newest(); got.Remote != "198.51.100.7" {
		t.Errorf("the record says %+v", got)
	}
}

// Limits and custom roles allocate no memory for a request.
func TestAuthenticateAllocations(t *testing.T) {
	n := startNode(t, func(c *server.Config) {
		c.Limits = ratelimit.Limits{PerKey: ratelimit.MaxRate, PerAddress: ratelimit.MaxRate, Failures: ratelimit.MaxRate}
	})
	if _, err := n.client(n.admin).PutRole(t.Context(), "r", api.RoleRequest{Permissions: []string{"job.work"}}, 0); err != nil {
		t.Fatal(err)
	}
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker, "r"}, QueueScope: []tenancy.Glob{"a.*", "b"}})
	r := httptest.NewRequest("POST", "/api/v1/fetch", nil)
	r.Header.Set("X-API-Key", key)
	got := testing.AllocsPerRun(200, func() {
		if _, err := n.server.Authenticate(r); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1 { // for the lookup of the key's id
		t.Errorf("authenticate allocates %v times, want 1", got)
	}
}
