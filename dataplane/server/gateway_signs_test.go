package server_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// TestHostTellsGatewaysWhatToRepeat checks that a host marks a refusal that changed nothing, in HTTP and in the RPC, and
// no other response. A bare node, whose clients are no gateways, marks none.
func TestHostTellsGatewaysWhatToRepeat(t *testing.T) {
	t.Parallel()
	a, b := openTenants(t, nil)
	asks := func(of *tenant) map[string]answer {
		return map[string]answer{
			"a write": of.ask("POST", "/api/v1/enqueue", `{"queue":"q"}`),
			"a read":  of.ask("GET", "/api/v1/queues", ""),
			"a call":  of.ask("POST", rpc.Prefix+"Enqueue", `{"queue":"q"}`, "Content-Type: application/json"),
		}
	}
	if err := a.server.Config().Host.Shut(t.Context(), a.ns); err != nil {
		t.Fatal(err)
	}
	for name, got := range asks(a) {
		if got.status != 503 || got.header.Get(fleet.OutcomeHeader) != fleet.Unchanged {
			t.Errorf("%s to a namespace that is not open: %d %v %s", name, got.status, got.header, got.body)
		}
	}
	for name, got := range asks(b) {
		if got.status >= 300 || got.header.Get(fleet.OutcomeHeader) != "" || got.header.Get(fleet.LeavingHeader) != "" {
			t.Errorf("%s that is served: %d %v %s", name, got.status, got.header, got.body)
		}
	}
	if got := b.ask("GET", "/api/v1/jobs/none", ""); got.status < 400 || got.header.Get(fleet.OutcomeHeader) != "" {
		t.Errorf("a refusal for another reason: %d %v", got.status, got.header)
	}
	b.server.Drain()
	for name, got := range asks(b) {
		if got.status >= 300 || got.header.Get(fleet.LeavingHeader) != "true" || got.header.Get("Connection") != "close" {
			t.Errorf("%s while the host shuts down: %d %v %s", name, got.status, got.header, got.body)
		}
	}
	if got := b.ask("GET", "/api/v1/events", ""); got.status != 503 || got.header.Get(fleet.OutcomeHeader) != fleet.Unchanged {
		t.Errorf("a stream while the host shuts down: %d %v", got.status, got.header)
	}

	n := startNodeOn(t, host.Config{}, nil)
	n.server.Drain()
	got := n.ask(http.MethodGet, "/api/v1/events", n.admin, "")
	if got.problem(t).Code != api.LeaderUnavailable || got.header.Get(fleet.OutcomeHeader) != "" || got.header.Get(fleet.LeavingHeader) != "" {
		t.Errorf("a bare node that shuts down: %v %s", got.header, got.body)
	}
}

// TestFollowerNamesTheLeader checks that the responses of a host that does not lead the home shard name the store that
// does, in HTTP and in the RPC, also after the leader has changed. A bare node names none. A stream of events goes on at
// the host that led before.
func TestFollowerNamesTheLeader(t *testing.T) {
	t.Parallel()
	members := startPeers(t, 1)
	hosts := map[string]*tenant{}
	for _, m := range members {
		hosts[m.id] = m.inTheCloud()
	}
	named := func(by, want string) {
		t.Helper()
		v := hosts[by]
		eventually(t, fmt.Sprintf("host %s serves and names the leader %q", by, want), func() bool {
			got := v.ask("GET", "/api/v1/queues", "") // a new member first learns of its vote
			return got.status < 500 && got.header.Get(fleet.LeaderHeader) == want
		})
		for _, got := range []answer{
			v.ask("POST", "/api/v1/enqueue", `{"queue":"q"}`),
			v.ask("POST", rpc.Prefix+"Enqueue", `{"queue":"q"}`, "Content-Type: application/json"),
			v.ask("GET", "/api/v1/jobs/none", ""),
		} {
			if got.status >= 500 || got.header.Get(fleet.LeaderHeader) != want {
				t.Errorf("host %s: %d %v %s, want the leader %q", by, got.status, got.header, got.body, want)
			}
		}
	}
	named("a", "")
	named("b", "a")
	named("c", "a")
	if got := hosts["b"].ask("GET", "/healthz", ""); got.header.Get(fleet.LeaderHeader) != "" {
		t.Errorf("a response without a namespace: %v", got.header)
	}
	if got := members[1].do("GET", "/api/v1/queues", "", 200, nil); got.header.Get(fleet.LeaderHeader) != "" {
		t.Errorf("a bare node: %v", got.header)
	}
	live := members[0].follow("", "?types=enqueued&queues=mail").begun()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := members[0].cells()[0].Engine().Transfer(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	named("b", "")
	named("a", "b")
	members[1].enqueue("mail")
	live.wants("enqueued mail")
}

// TestHostWithoutAVoteServesNobody checks that a host refuses a namespace that it has joined and not caught
// up with, and names the leader once it knows the leader. The host serves the namespace once it has a vote.
func TestHostWithoutAVoteServesNobody(t *testing.T) {
	t.Parallel()
	identities := transporttest.Identities("a", "b")
	a := startPeer(t, "a", identities["a"], host.Spec{})
	a.ready()
	a.enqueue("q")
	group := a.cells()[0].Engine()
	b := startPeer(t, "b", identities["b"], host.Spec{Shards: 1, Join: []entry.Incarnation{group.Incarnation()}})
	v := b.inTheCloud()
	refuses := func(leader string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the host names the leader %q", leader), func() bool {
			return v.ask("GET", "/api/v1/queues", "").header.Get(fleet.LeaderHeader) == leader
		})
		for name, got := range map[string]answer{
			"a read":  v.ask("GET", "/api/v1/queues", ""),
			"a write": v.ask("POST", "/api/v1/enqueue", `{"queue":"q"}`),
			"a call":  v.ask("POST", rpc.Prefix+"Enqueue", `{"queue":"q"}`, "Content-Type: application/json"),
		} {
			if got.status != 503 || got.header.Get(fleet.OutcomeHeader) != fleet.Unchanged {
				t.Errorf("%s, with the leader %q: %d %v %s", name, leader, got.status, got.header, got.body)
			}
		}
	}
	refuses("")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := group.AddLearner(ctx, "b", b.transport.Address()); err != nil {
		t.Fatal(err)
	}
	refuses("a")
	if err := group.Promote(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the host serves", func() bool {
		got := v.ask("GET", "/api/v1/queues/q", "")
		return got.status == 200 && got.header.Get(fleet.LeaderHeader) == "a"
	})
}

// TestHostNamesNoAddress checks that the status of a host's cluster names no address, because a tenant could not reach
// it and need not know it.
func TestHostNamesNoAddress(t *testing.T) {
	t.Parallel()
	a, _ := openTenants(t, nil)
	var status api.ClusterStatus
	a.must(&status, "GET", "/api/v1/cluster/status", "")
	if status.LeaderAddr != "" || len(status.Nodes) != 1 || status.Nodes[0].Address != "" || status.Nodes[0].URL != "" {
		t.Errorf("%+v", status)
	}
}
