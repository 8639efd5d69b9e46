package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/tenancy/keyring"
)

// group is a town whose namespace has several members. Each answers with its number and names the leader if another
// one leads.
type group struct {
	*town
	key     string
	members []*groupMember
	leader  atomic.Int32 // number of the member that leads; 0 = none is known
	ahead   atomic.Int64 // of the gateway's clock
}

// groupMember is one member of a group.
type groupMember struct {
	number int
	server *httptest.Server
	calls  atomic.Int32
	// fails answers a request in place of the member and returns true, or returns false; nil = the member serves all.
	fails atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

// newGroup starts n members of ns_a, numbered from 1. The first one leads.
func newGroup(t *testing.T, n int, change ...func(*Config)) *group {
	t.Helper()
	x := &group{}
	x.leader.Store(1)
	x.town = newTown(t, ok, append([]func(*Config){patient, func(c *Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(x.ahead.Load())) }
	}}, change...)...)
	for number := 1; number <= n; number++ {
		m := &groupMember{number: number}
		m.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { x.serve(m, w, r) }))
		t.Cleanup(m.server.Close)
		x.members = append(x.members, m)
	}
	x.key = x.town.key(keyring.Namespace, time.Time{}, "ns_a")
	x.place(nil)
	return x
}

func (x *group) serve(m *groupMember, w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/healthz" {
		m.calls.Add(1)
	}
	if leader := int(x.leader.Load()); leader != 0 && leader != m.number {
		w.Header().Set(fleet.LeaderHeader, fmt.Sprint("store_", leader))
	}
	if fails := m.fails.Load(); fails != nil && (*fails)(w, r) {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = fmt.Fprint(w, m.number)
}

// failing makes a member answer by f from now on.
func (m *groupMember) failing(f func(http.ResponseWriter, *http.Request) bool) { m.fails.Store(&f) }

// list returns the members of the document.
func (x *group) list() (all []fleet.GroupMember) {
	for _, m := range x.members {
		all = append(all, memberAt(m.server.URL, m.number)...)
	}
	return all
}

// place publishes the document with a change of the list of members, and waits until the gateway has it.
func (x *group) place(change func(all []fleet.GroupMember) []fleet.GroupMember) {
	x.t.Helper()
	all := x.list()
	if change != nil {
		all = change(all)
	}
	x.put("ns_a", func(d *fleet.Doc) { d.Members = all })
	x.settle()
}

// asks sends a request, which must be served by the member with the given number.
func (x *group) asks(method string, want int, headers ...string) {
	x.t.Helper()
	got := x.send(method, "/api/v1/x", x.key, `{}`, headers...)
	if got.StatusCode != http.StatusOK || got.body != fmt.Sprint(want) {
		x.t.Errorf("%s: %d %s, want the answer of member %d", method, got.StatusCode, got.body, want)
	}
	if got.Header.Get(fleet.LeaderHeader) != "" {
		x.t.Errorf("the client sees %s", fleet.LeaderHeader)
	}
}

// refusing returns a member's refusal with a code; an outcome of "" is left out.
func refusing(code api.Code, outcome string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		if outcome != "" {
			w.Header().Set(fleet.OutcomeHeader, outcome)
		}
		w.WriteHeader(code.Status())
		_, _ = fmt.Fprintf(w, `{"code":%q}`, code)
		return true
	}
}

// breakingOff reads the request and ends its connection.
func breakingOff(_ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// TestRequestsGoToTheLeader checks that a host's hint moves the later requests to the leader. A second hint
// within hintEvery moves none. A document without the leader makes the gateway forget the leader.
func TestRequestsGoToTheLeader(t *testing.T) {
	t.Parallel()
	x := newGroup(t, 3)
	x.asks("POST", 1)
	x.leader.Store(3)
	x.asks("POST", 1) // a follower serves too
	x.asks("POST", 3)
	x.leader.Store(2)
	x.asks("POST", 3)
	x.asks("POST", 3) // the hint came too soon
	x.ahead.Store(int64(hintEvery))
	x.asks("POST", 3)
	x.asks("POST", 2)
	x.place(func(all []fleet.GroupMember) []fleet.GroupMember { return all[2:] })
	if first := x.gateway.first.get("ns_a"); first != (firstMember{}) {
		t.Errorf("the first member is still %+v", first)
	}
	x.asks("POST", 3) // its hint names no member
	x.asks("POST", 3)
}

// TestHostsThatNameEachOther checks that two hosts whose hints name each other do not move the requests to
// and fro.
func TestHostsThatNameEachOther(t *testing.T) {
	t.Parallel()
	x := newGroup(t, 2)
	for i, other := range []string{"store_2", "store_1"} {
		x.members[i].failing(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set(fleet.LeaderHeader, other)
			return false
		})
	}
	for range 20 {
		if got := x.send("POST", "/api/v1/x", x.key, `{}`); got.StatusCode != 200 {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	}
	if first, second := x.members[0].calls.Load(), x.members[1].calls.Load(); first != 1 || second != 19 {
		t.Errorf("the members got %d and %d requests, want 1 and 19", first, second)
	}
}

// TestTriesTheOtherMembers lets the member that gets a request first fail in some way. The gateway sends the request to
// another member without a pause, if it may be sent again. Later requests go to a member that has not failed.
func TestTriesTheOtherMembers(t *testing.T) {
	t.Parallel()
	unchanged, unknown := fleet.Unchanged, fleet.Unknown
	for _, c := range []struct {
		name        string
		fails       func(http.ResponseWriter, *http.Request) bool // nil = it is closed
		method, key string
		status      int
	}{
		{"not connected", nil, "POST", "", 200},
		{"no leader", refusing(api.LeaderUnavailable, unchanged), "POST", "", 200},
		{"no leader, outcome unknown", refusing(api.LeaderUnavailable, unknown), "POST", "", 503},
		{"no leader, outcome unknown, with a key", refusing(api.LeaderUnavailable, unknown), "POST", "k", 200},
		{"stopped", refusing(api.Unhealthy, unchanged), "POST", "", 200},
		{"stopped, outcome unknown", refusing(api.Unhealthy, unknown), "POST", "", 503},
		{"stopped, outcome unknown, a read", refusing(api.Unhealthy, unknown), "GET", "", 200},
		{"an unknown credential", refusing(api.Unauthorized, ""), "POST", "", 200},
		{"broken off", breakingOff, "POST", "", 503},
		{"broken off, with a key", breakingOff, "POST", "k", 200},
		{"broken off, a read", breakingOff, "GET", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newGroup(t, 3)
			x.leader.Store(0) // the failing member leads no more, and no one knows yet who does
			if c.fails == nil {
				x.members[0].server.Close()
			} else {
				x.members[0].failing(func(w http.ResponseWriter, r *http.Request) bool {
					return r.URL.Path != "/healthz" && c.fails(w, r)
				})
			}
			var headers []string
			if c.key != "" {
				headers = []string{"Idempotency-Key", c.key}
			}
			got := x.send(c.method, "/api/v1/x", x.key, `{}`, headers...)
			if got.StatusCode != c.status || c.status == 200 && got.body != "2" {
				t.Errorf("%d %s, want %d", got.StatusCode, got.body, c.status)
			}
			if c.status == 503 && x.members[1].calls.Load()+x.members[2].calls.Load() != 0 {
				t.Error("the request was sent again, and its outcome is not known")
			}
			x.asks("POST", 2)
			x.asks("POST", 2)
			if waits := x.gateway.waiting.served.Load(); waits != 0 {
				t.Errorf("%d requests waited for a pause", waits)
			}
		})
	}
}

// TestLeavesALeavingMember checks that requests go to other members while a member leaves the list, unless it
// leads, and while a member's host shuts down. Requests return to the leader when its host is back.
func TestLeavesALeavingMember(t *testing.T) {
	t.Parallel()
	x := newGroup(t, 3)
	x.leader.Store(0)
	x.place(func(all []fleet.GroupMember) []fleet.GroupMember {
		all[0].Role = fleet.Leaving
		return all
	})
	x.asks("POST", 2)
	x.leader.Store(1)
	x.asks("POST", 2)
	x.asks("POST", 1) // it leads
	var leaving atomic.Bool
	leaving.Store(true)
	x.members[0].failing(func(w http.ResponseWriter, _ *http.Request) bool {
		if leaving.Load() {
			w.Header().Set(fleet.LeavingHeader, "true")
		}
		return false
	})
	x.asks("POST", 1)
	before := x.members[0].calls.Load()
	for range 10 {
		x.asks("POST", 2)
	}
	if x.members[0].calls.Load() != before {
		t.Error("a host that shuts down got a request")
	}
	leaving.Store(false)
	fleettest.Eventually(t, "the leader that is back gets requests", func() bool {
		return x.send("POST", "/api/v1/x", x.key, `{}`).body == "1"
	})
}

// TestAllMembersAway checks the answer if no member takes a request within HostWait, and that a request that
// waits goes to the member that returns first.
func TestAllMembersAway(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{100 * time.Millisecond, time.Minute} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			x := newGroup(t, 3, func(c *Config) { c.HostWait = wait })
			for _, m := range x.members {
				m.failing(refusing(api.LeaderUnavailable, fleet.Unchanged))
			}
			answered := make(chan reply, 1)
			go func() { answered <- x.send("POST", "/api/v1/x", x.key, `{}`) }()
			if wait == time.Minute {
				x.waits(1)
				x.members[2].fails.Store(nil)
				if got := <-answered; got.StatusCode != 200 || got.body != "3" {
					t.Errorf("%d %s", got.StatusCode, got.body)
				}
				x.asks("POST", 3)
				return
			}
			got := <-answered
			if got.StatusCode != 503 || got.code() != api.LeaderUnavailable || got.Header.Get("Retry-After") != "1" || !strings.Contains(got.body, "nothing was done") {
				t.Errorf("%d %v %s", got.StatusCode, got.Header, got.body)
			}
			for _, m := range x.members {
				if m.calls.Load() == 0 {
					t.Errorf("member %d was not tried", m.number)
				}
			}
		})
	}
}

// TestAStoppedReplicaOfOne checks that the client gets the refusal of a namespace's only member, because no
// other member can serve.
func TestAStoppedReplicaOfOne(t *testing.T) {
	t.Parallel()
	x := newGroup(t, 1)
	x.members[0].failing(refusing(api.Unhealthy, fleet.Unchanged))
	if got := x.send("GET", "/api/v1/x", x.key, ""); got.code() != api.Unhealthy || x.members[0].calls.Load() != 1 {
		t.Errorf("%d %s after %d calls", got.StatusCode, got.body, x.members[0].calls.Load())
	}
}

// TestFailoverWhileRequestsRun lets the leader shut down and later breaks off the next leader, while clients send
// requests that may be repeated. No request fails.
func TestFailoverWhileRequestsRun(t *testing.T) {
	t.Parallel()
	x := newGroup(t, 3)
	var served [4]atomic.Int32 // by member
	var broken, stop atomic.Bool
	var running sync.RWMutex // held for reading by each request
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for i := 0; !stop.Load(); i++ {
				running.RLock()
				method, headers := "GET", []string(nil)
				switch {
				case (client+i)%3 == 1:
					method, headers = "POST", []string{"Idempotency-Key", fmt.Sprint(client, "-", i)}
				case (client+i)%3 == 2 && !broken.Load(): // nobody knows the outcome of a plain write that breaks off
					method = "POST"
				}
				got := x.send(method, "/api/v1/x", x.key, "", headers...)
				running.RUnlock()
				var by int
				if _, err := fmt.Sscan(got.body, &by); got.StatusCode != 200 || err != nil {
					t.Errorf("%s %v: %d %s", method, headers, got.StatusCode, got.body)
					return
				}
				served[by].Add(1)
			}
		})
	}
	serves := func(member int) {
		t.Helper()
		before := served[member].Load()
		fleettest.Eventually(t, fmt.Sprintf("member %d serves", member), func() bool { return served[member].Load() >= before+20 })
	}
	finish := func() { // waits for the requests that have begun
		running.Lock()
		defer running.Unlock()
	}
	serves(1)
	x.members[0].failing(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set(fleet.LeavingHeader, "true")
		w.Header().Set("Connection", "close")
		return false
	})
	x.leader.Store(2)
	serves(2)
	finish() // as a host does, which goes on serving for a moment
	x.members[0].server.Close()
	serves(2)
	broken.Store(true)
	finish()
	x.leader.Store(3)
	x.members[1].failing(breakingOff)
	serves(3)
	stop.Store(true)
	clients.Wait()
	if kept := x.gateway.room.used.Load(); kept != 0 {
		t.Errorf("%d bytes of bodies are still kept", kept)
	}
}

// TestForgetsTheLeaderWithItsNamespace checks that the gateway forgets the first member of a namespace that
// is closed, and that a response that comes after the document does not bring the member back.
func TestForgetsTheLeaderWithItsNamespace(t *testing.T) {
	t.Parallel()
	x := newGroup(t, 2)
	x.asks("POST", 1)
	if first := x.gateway.first.get("ns_a"); first.store != "store_1" {
		t.Errorf("the first member is %+v", first)
	}
	x.put("ns_a", func(d *fleet.Doc) { d.Desired, d.Keys = fleet.Absent, nil })
	x.settle()
	late := &proxiedRequest{members: x.list(), store: "store_2"}
	late.namespace = "ns_a"
	x.gateway.learn(late, "", false)
	if first := x.gateway.first.get("ns_a"); first != (firstMember{}) {
		t.Errorf("the first member is still %+v", first)
	}
}
