package stripefake

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestIdempotencyKeysLastForADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	create := func(key string, params ...string) (int, string, string) {
		status, header, o := f.try(key, "POST", "/v1/customers", params...)
		id, _ := o["id"].(string)
		return status, id, header.Get("Idempotent-Replayed")
	}
	_, first, replayed := create("k", "name=a")
	if first == "" || replayed != "" {
		t.Fatalf("the first request made %q, replayed %q", first, replayed)
	}
	f.clock.Advance(keyLife - time.Second)
	if status, id, replayed := create("k", "name=a"); status != 200 || id != first || replayed != "true" {
		t.Errorf("a repeat answered %d with %s, replayed %q, want %s", status, id, replayed, first)
	}
	if status, _, o := f.try("k", "POST", "/v1/customers", "name=b"); status != 400 || o["error"].(object)["type"] != "idempotency_error" {
		t.Errorf("another body under the key: %d %v", status, o)
	}
	f.clock.Advance(time.Second)
	if _, id, replayed := create("k", "name=a"); id == first || replayed != "" {
		t.Errorf("after a day the key still names %s", id)
	}
	if n := len(f.Objects("customer")); n != 2 {
		t.Errorf("%d customers, want 2", n)
	}
}

func TestARefusalOfParametersIsNotStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	customer := f.customer()
	if status, _, o := f.try("k", "POST", "/v1/invoices", "customer="+customer, "frob=1"); status != 400 || o["error"].(object)["code"] != "parameter_unknown" {
		t.Fatalf("%d %v", status, o)
	}
	if status, _, o := f.try("k", "POST", "/v1/invoices", "customer="+customer); status != 200 {
		t.Errorf("the key is taken: %d %v", status, o)
	}
}

func TestAKeyInUseIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release, done := make(chan struct{}), make(chan int)
	f.Inject(Fault{Kind: Hold, Release: release})
	go func() {
		status, _, _ := f.try("k", "POST", "/v1/customers")
		done <- status
	}()
	wait(t, func() bool { return len(f.held()) == 1 })
	if status, _, o := f.try("k", "POST", "/v1/customers"); status != http.StatusConflict {
		t.Errorf("%d %v", status, o)
	}
	close(release)
	if status := <-done; status != 200 {
		t.Errorf("the held request answered %d", status)
	}
}

// held returns the idempotency keys of requests in progress.
func (s *Server) held() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, a := range s.answers {
		if a.running {
			keys = append(keys, key)
		}
	}
	return keys
}

// wait waits for a condition.
func wait(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-t.Context().Done():
			t.Fatal("the condition did not come true")
		case <-tick.C:
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inject(Fault{Kind: RateLimit, Route: "POST /v1/customers", Skip: 1, RetryAfter: 7 * time.Second})
	f.customer()
	if status, header, _ := f.try("", "POST", "/v1/customers"); status != http.StatusTooManyRequests || header.Get("Retry-After") != "7" {
		t.Errorf("%d, Retry-After %q", status, header.Get("Retry-After"))
	}
	f.Inject(Fault{Kind: LoseResponse})
	f.Inject(Fault{Kind: LoseRequest, Skip: 1})
	f.Inject(Fault{Kind: InternalError, Skip: 2})
	for i, want := range []struct{ status, customers int }{{0, 2}, {0, 2}, {500, 2}, {200, 3}} {
		if status, _, _ := f.try("", "POST", "/v1/customers"); status != want.status || len(f.Objects("customer")) != want.customers {
			t.Errorf("request %d: %d and %d customers, want %+v", i, status, len(f.Objects("customer")), want)
		}
	}
	f.Outage(24 * time.Hour)
	f.clock.Advance(24*time.Hour - time.Second)
	f.refuses(http.StatusServiceUnavailable, "", "GET", "/v1/customers")
	f.clock.Advance(time.Second)
	f.do("GET", "/v1/customers")
}

func TestALostResponseIsRepeatedUnderItsKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Inject(Fault{Kind: LoseResponse})
	if status, _, _ := f.try("k", "POST", "/v1/customers"); status != 0 {
		t.Fatalf("the response was not lost: %d", status)
	}
	status, header, o := f.try("k", "POST", "/v1/customers")
	if made := f.Objects("customer"); status != 200 || header.Get("Idempotent-Replayed") != "true" || len(made) != 1 || made[0]["id"] != o["id"] {
		t.Errorf("%d %v, %d customers", status, o, len(made))
	}
}

func TestListsHavePagesAndSearchesLag(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []string
	for i := range 5 {
		ids = append(ids, f.do("POST", "/v1/customers", fmt.Sprintf("metadata[corvo_org]=org_%d", i))["id"].(string))
	}
	first := f.do("GET", "/v1/customers", "limit=3")
	second := f.do("GET", "/v1/customers", "limit=3", "starting_after="+ids[2])
	if a, b := data(first), data(second); len(a) != 3 || a[0]["id"] != ids[4] || first["has_more"] != true || len(b) != 2 || b[1]["id"] != ids[0] || second["has_more"] != false {
		t.Errorf("%v\n%v", first, second)
	}
	f.refuses(400, "parameter_invalid_integer", "GET", "/v1/customers", "limit=101")
	query := "query=metadata['corvo_org']:'org_1'"
	if found := data(f.do("GET", "/v1/customers/search", query)); len(found) != 0 {
		t.Errorf("a search at once found %v", found)
	}
	f.clock.Advance(DefaultSearchLag)
	if found := data(f.do("GET", "/v1/customers/search", query)); len(found) != 1 {
		t.Errorf("a search after the lag found %v", found)
	}
}

func TestRequestsNeedTheKeyAndARoute(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refuses(http.StatusNotFound, "", "GET", "/v1/frob")
	f.refuses(http.StatusNotFound, "resource_missing", "GET", "/v1/customers/cus_none")
	resp, err := f.http.Get(f.url + "/v1/customers")
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
	if calls := f.Calls(); len(calls) != 1 || !strings.HasPrefix(calls[0], "GET /v1/customers/") {
		t.Errorf("calls: %v", calls)
	}
}
