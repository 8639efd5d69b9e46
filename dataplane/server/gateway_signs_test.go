package server_test

import (
	"net/http"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/dataplane/host"
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
