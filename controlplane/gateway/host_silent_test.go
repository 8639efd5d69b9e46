package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/fleettest"
)

// TestRequestsLeaveASilentHost lets the leader take requests and stop answering, as a stopped process does. A read goes to
// another member, a poll is refused, a stream ends, and later requests go to another member. A plain write, whose outcome is
// open, waits for its host. The leader gets requests again when it answers again.
func TestRequestsLeaveASilentHost(t *testing.T) {
	t.Parallel()
	x := newGroup(t, 3)
	x.asks("POST", 1)
	var silent, held atomic.Int32
	wakes := make(chan struct{})
	x.members[0].failing(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == eventsPath {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}
		if silent.Load() == 1 {
			_, _ = io.Copy(io.Discard, r.Body) // so that the server notices that its client leaves
			if r.URL.Path != "/healthz" {
				held.Add(1)
			}
			select {
			case <-wakes:
			case <-r.Context().Done():
			}
		}
		return false
	})
	events, err := x.client.Do(x.request(t.Context(), "GET", eventsPath, x.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	silent.Store(1)
	answers := map[string]chan reply{}
	for name, of := range map[string][2]string{"read": {"GET", "/api/v1/x"}, "poll": {"POST", fetchPath}, "write": {"POST", "/api/v1/x"}} {
		answer := make(chan reply, 1)
		answers[name] = answer
		go func() { answer <- x.send(of[0], of[1], x.key, "{}") }()
	}
	fleettest.Eventually(t, "the leader has the requests", func() bool { return held.Load() == 3 })
	if got := <-answers["read"]; got.StatusCode != 200 || got.body != "2" {
		t.Errorf("a read: %d %s", got.StatusCode, got.body)
	}
	if got := <-answers["poll"]; got.code() != api.LeaderUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("a poll: %d %s", got.StatusCode, got.body)
	}
	if _, err := io.ReadAll(events.Body); err == nil {
		t.Error("a stream of events ends as if the host had ended it")
	}
	x.asks("POST", 2)
	select {
	case got := <-answers["write"]:
		t.Errorf("a plain write was answered: %d %s", got.StatusCode, got.body)
	default:
	}
	silent.Store(0)
	close(wakes)
	if got := <-answers["write"]; got.StatusCode != 200 || got.body != "1" {
		t.Errorf("a plain write: %d %s", got.StatusCode, got.body)
	}
	fleettest.Eventually(t, "the leader gets requests again", func() bool {
		return x.send("POST", "/api/v1/x", x.key, "{}").body == "1"
	})
}

// TestABusyHostIsNotSilent checks that one probe without an answer changes nothing, and that hosts without requests are
// forgotten.
func TestABusyHostIsNotSilent(t *testing.T) {
	t.Parallel()
	var h hostWatch
	g := &Gateway{}
	busy := g.targetOf("http://host_1")
	for _, c := range []struct{ answered, silent bool }{{false, false}, {true, false}, {false, false}, {false, true}, {false, true}, {true, false}} {
		if !h.begin(busy) || h.begin(busy) {
			t.Fatal("not exactly one probe may run")
		}
		if got := h.end(busy, c.answered); got != c.silent {
			t.Errorf("%+v: silent is %v", c, got)
		}
	}
	h.begin(busy)
	h.end(busy, false)
	h.keep(nil)
	h.begin(busy)
	if h.end(busy, false) {
		t.Error("a probe that failed long ago counts")
	}
}
