package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/api/serve/ratelimit"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestLimits checks the gateway's limits on the rate of a key, of an address, and of failures of an address.
func TestLimits(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	w := newTown(t, ok, func(c *Config) {
		c.Limits = ratelimit.Limits{PerKey: 4, PerAddress: 10, Failures: 2, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	later := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	mine, other := w.key(keyring.Namespace, time.Time{}, "ns_a"), w.key(keyring.Namespace, time.Time{}, "ns_a")
	const here, there = "192.0.2.1", "192.0.2.2"
	expect := func(from, key string, status int) {
		t.Helper()
		got := w.send("GET", "/api/v1/queues", key, "", "X-Forwarded-For", from)
		if got.StatusCode != status {
			t.Errorf("%d %s, want %d", got.StatusCode, got.body, status)
		}
		if seconds, err := strconv.Atoi(got.Header.Get("Retry-After")); status == 429 && (got.code() != api.RateLimited || err != nil || seconds < 1) {
			t.Errorf("%s, Retry-After %q", got.body, got.Header.Get("Retry-After"))
		}
	}
	for range 4 {
		expect(here, mine, 200)
	}
	expect(here, mine, 429)
	expect(there, mine, 429) // wherever it comes from
	expect(here, other, 200)
	later(time.Second / 4)
	expect(here, mine, 200)
	expect(here, mine, 429)

	// Failures come five at once; a good key from there still opens.
	const flood = "192.0.2.3"
	for range 5 {
		expect(flood, "garbage", 401)
	}
	expect(flood, "garbage", 429)
	expect(flood, other, 200)
	expect("192.0.2.4", "garbage", 401)

	// All requests from one address, with any key.
	later(time.Minute)
	for i := range 10 {
		expect("192.0.2.5", []string{mine, other, ""}[i%3], []int{200, 200, 401}[i%3])
	}
	expect("192.0.2.5", "", 429)

	// A full bucket is not kept.
	known := func() (n int) { w.gateway.rates.buckets.Range(func(any, any) bool { n++; return true }); return n }
	if known() != 2 {
		t.Errorf("%d keys have asked, want 2", known())
	}
	later(time.Minute)
	w.gateway.rates.forget(w.gateway.config.Now())
	if known() != 0 {
		t.Errorf("%d keys with a full bucket are kept", known())
	}
}

// TestLimitsOfTenants checks the rates of a namespace and of an organisation, which hold for all keys together. A request
// above a narrower limit takes nothing from a wider one.
func TestLimitsOfTenants(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := newTown(t, ok, func(c *Config) {
		c.Limits = ratelimit.Limits{PerKey: 2, PerNamespace: 3, PerOrg: 4}
		c.Now = func() time.Time { return now }
	})
	w.put("ns_b", nil)
	w.put("ns_other", func(d *fleet.Doc) { d.Org = "org_b" })
	key := func(namespace string) string { return w.key(keyring.Namespace, time.Time{}, namespace) }
	first, second, sibling, stranger := key("ns_a"), key("ns_a"), key("ns_b"), key("ns_other")
	for i, c := range []struct {
		key  string
		says string // "" = served
	}{
		{first, ""}, {first, ""}, {first, "with this API key"}, {first, "with this API key"},
		{second, ""}, {second, "in this namespace"},
		{sibling, ""}, {sibling, "in this organisation"},
		{stranger, ""}, {stranger, ""},
	} {
		got := w.send("GET", "/api/v1/queues", c.key, "")
		if c.says == "" && got.StatusCode != 200 || c.says != "" && (got.code() != api.RateLimited || !strings.Contains(got.body, c.says)) {
			t.Errorf("request %d: %d %s, want it refused for %q", i, got.StatusCode, got.body, c.says)
		}
	}
}

// TestMostRequestsOfANamespace checks, at the bound, the limit on a namespace's requests under way, and that
// requests of one namespace do not count against another.
func TestMostRequestsOfANamespace(t *testing.T) {
	t.Parallel()
	p := newParking()
	const most = 3
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/queues" {
			ok(w, r)
			return
		}
		p.serve(w, r)
	}, func(c *Config) { c.MaxRequests = most })
	w.put("ns_b", nil)
	key, other := w.key(keyring.Namespace, time.Time{}, "ns_a"), w.key(keyring.Namespace, time.Time{}, "ns_b")
	ctx, cancel := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	for range most {
		polls.Go(func() {
			if answer, err := w.client.Do(w.request(ctx, "POST", "/api/v1/fetch", key, `{}`)); err == nil {
				t.Errorf("a poll was answered %d", answer.StatusCode)
				answer.Body.Close()
			}
		})
		within(t, p.parked, "the poll is parked")
	}
	got := w.send("GET", "/api/v1/queues", key, "")
	if got.StatusCode != 429 || got.code() != api.Overloaded || got.Header.Get("Retry-After") != "1" {
		t.Errorf("one request more: %d %s", got.StatusCode, got.body)
	}
	if got := w.send("GET", "/api/v1/queues", other, ""); got.StatusCode != 200 {
		t.Errorf("another namespace: %d %s", got.StatusCode, got.body)
	}
	cancel()
	polls.Wait()
	fleettest.Eventually(t, "the polls have ended", func() bool { return w.send("GET", "/api/v1/queues", key, "").StatusCode == 200 })
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{ControlPlane: "http://127.0.0.1:1", Limits: ratelimit.Limits{PerKey: -1}}); err == nil {
		t.Error("a limit of -1 is taken")
	}
}

// TestSlowReader checks that the gateway cuts off a client that does not read its response, so that the host
// is free, and that a client that reads slowly gets the whole response.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 1)
	const pieces = 10
	const limit = 2 * time.Second // of a piece; all pieces together take twice as long
	w := newTown(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/events" {
			for range pieces {
				_, _ = w.Write([]byte("data: 1\n\n"))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(limit * 2 / pieces):
				case <-r.Context().Done():
				}
			}
			return
		}
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				left <- struct{}{}
				return
			}
		}
	}, func(c *Config) { c.AnswerWait = limit })
	key := w.key(keyring.Namespace, time.Time{}, "ns_a")
	if got := w.send("GET", "/api/v1/events", key, ""); len(got.body) != pieces*len("data: 1\n\n") {
		t.Errorf("who reads on got %d %q", got.StatusCode, got.body)
	}
	var dial net.Dialer
	conn, err := dial.DialContext(context.Background(), "tcp", w.url[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api/v1/queues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", key)
	within(t, left, "the host need not send on to who does not read")
	fleettest.Eventually(t, "nothing is under way", func() bool {
		w.gateway.inflight.mu.Lock()
		defer w.gateway.inflight.mu.Unlock()
		return len(w.gateway.inflight.requests) == 0
	})
}
