package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api/fleet"
)

// TestGoesOnWithTheNextProcess sends requests to a control plane of two processes, of which the first is
// away, breaks off or refuses. The gateway sends a request to the second process only if a repeat does no
// harm.
func TestGoesOnWithTheNextProcess(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	}))
	t.Cleanup(leader.Close)
	refuses := func(status int, code string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":"no","code":%q}`, code)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(breaks.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	follower, stopping, busy := refuses(503, "LEADER_UNAVAILABLE"), refuses(503, "UNHEALTHY"), refuses(429, "OVERLOADED")

	for _, c := range []struct {
		name, first, method, key string
		body                     int
		served, leaves           bool
	}{
		{name: "a read without a leader", first: follower, method: "GET", served: true, leaves: true},
		{name: "a read of a process that stops", first: stopping, method: "GET", served: true, leaves: true},
		{name: "a read whose connection breaks", first: breaks.URL, method: "GET", served: true, leaves: true},
		{name: "a write that was not sent", first: gone.URL, method: "POST", body: 9, served: true, leaves: true},
		{name: "a write that may have been made", first: breaks.URL, method: "POST", body: 9, leaves: true},
		{name: "a refused write", first: follower, method: "POST", body: 9, leaves: true},
		{name: "a refused write with a key", first: follower, method: "POST", key: "k", body: maxRepeatedBody, served: true, leaves: true},
		{name: "a write larger than any", first: follower, method: "POST", key: "k", body: maxRepeatedBody + 1, leaves: true},
		{name: "a refusal that is the answer", first: busy, method: "GET"},
	} {
		t.Run(c.name, func(t *testing.T) {
			endpoints, err := fleet.ParseEndpoints(c.first + "," + leader.URL + "/base")
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(c.method, "/cloud/v1/orgs/a%2Fb?x=1", nil).WithContext(t.Context())
			r.RequestURI = ""
			if c.body > 0 {
				r = httptest.NewRequest(c.method, r.URL.String(), strings.NewReader(strings.Repeat("b", c.body))).WithContext(t.Context())
				r.RequestURI = ""
			}
			if c.key != "" {
				r.Header.Set("Idempotency-Key", c.key)
			}
			before := served.Load()
			answer, err := processes{&http.Transport{DisableKeepAlives: true}, endpoints}.RoundTrip(r)
			text := ""
			if err == nil {
				body, readErr := io.ReadAll(answer.Body)
				if err = answer.Body.Close(); readErr != nil {
					t.Error(readErr)
				}
				text = string(body)
			}
			want := c.method + " /base/cloud/v1/orgs/a%2Fb?x=1 " + strings.Repeat("b", c.body)
			if c.served && (err != nil || text != want) || !c.served && err == nil && !strings.Contains(text, `"code"`) {
				t.Errorf("answered %.200q, %v", text, err)
			}
			if got := served.Load() - before; got != map[bool]int32{true: 1}[c.served] {
				t.Errorf("the second process served %d requests", got)
			}
			if at, _ := endpoints.Current(); (at == 1) != c.leaves {
				t.Errorf("process %d is asked next", at)
			}
		})
	}
}
