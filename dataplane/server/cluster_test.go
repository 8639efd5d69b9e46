package server_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
)

// fakeCluster is a cluster of three nodes, which this node leads.
type fakeCluster struct {
	mu      sync.Mutex
	asked   []string
	answers error
	members func() ([]engine.Member, error)
}

func (f *fakeCluster) ask(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	return f.answers
}

func (f *fakeCluster) Nodes() []cluster.Node {
	return []cluster.Node{
		{ID: "n1", Address: "n1:9400", HTTP: "http://n1", Version: "test", Self: true, Connected: true},
		{ID: "n2", Address: "n2:9400", HTTP: "http://n2", Version: "v2", Connected: true, Clock: -1500 * time.Microsecond},
		{ID: "n3", Address: "n3:9400"},
	}
}
func (f *fakeCluster) URL(id string) string { return "http://" + id }
func (f *fakeCluster) Members(context.Context, int) ([]engine.Member, error) {
	return f.members()
}
func (f *fakeCluster) Invite(_ context.Context, at string) error   { return f.ask("invite " + at) }
func (f *fakeCluster) Remove(_ context.Context, id string) error   { return f.ask("remove " + id) }
func (f *fakeCluster) Transfer(_ context.Context, to string) error { return f.ask("transfer " + to) }

func TestMembershipIsChangedByRoutes(t *testing.T) {
	t.Parallel()
	f := &fakeCluster{}
	member := startNode(t, func(c *server.Config) { c.Cluster = f })
	alone := startNode(t, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string // in the answer
		asks               string // the expected call to the cluster; "" = none
	}{
		{"POST", "join", `{"address":"n4:9400"}`, 200, `"invited"`, "invite n4:9400"},
		{"POST", "join", `{"address":""}`, 400, `"address"`, ""},
		{"POST", "join", ``, 400, `VALIDATION_ERROR`, ""},
		{"POST", "join", `{"adress":"n4:9400"}`, 400, `adress`, ""},
		{"POST", "transfer", `{"to":"n2"}`, 200, `"transferred"`, "transfer n2"},
		{"POST", "transfer", `{}`, 200, `"transferred"`, "transfer "},
		{"POST", "transfer", ``, 200, `"transferred"`, "transfer "},
		{"POST", "transfer", `{"node":"n2"}`, 400, `node`, ""},
		{"DELETE", "servers/n3", ``, 200, `"removed"`, "remove n3"},
		{"DELETE", "servers/a%2Fb", ``, 200, `"removed"`, "remove a/b"},
	} {
		f.asked = nil
		got := member.send(c.method, "/api/v1/cluster/"+c.path, member.admin, c.body)
		if got.status != c.status || !strings.Contains(string(got.body), c.says) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.body)
		}
		if c.asks == "" && len(f.asked) > 0 || c.asks != "" && !slices.Equal(f.asked, []string{c.asks}) {
			t.Errorf("%s %s %s asked for %q", c.method, c.path, c.body, f.asked)
		}
		if c.status != 200 {
			continue
		}
		got = alone.send(c.method, "/api/v1/cluster/"+c.path, alone.admin, c.body)
		if p := got.problem(t); p.Code != api.StateConflict || !strings.Contains(p.Error, "--raft-bind") {
			t.Errorf("a node that is alone, %s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
	f.answers = api.Errorf(api.StateConflict, "no majority would be left")
	if got := member.send("DELETE", "/api/v1/cluster/servers/n3", member.admin, ""); got.problem(t).Code != api.StateConflict {
		t.Errorf("a refusal: %d %s", got.status, got.body)
	}
}

// The status joins this node's data about the others with the leader's.
func TestClusterStatusRows(t *testing.T) {
	t.Parallel()
	f := &fakeCluster{members: func() ([]engine.Member, error) {
		return []engine.Member{
			{ID: "n1", Voter: true}, {ID: "n2", Voter: true, LastContact: 20 * time.Millisecond, Lag: 3}, {ID: "n3", LastContact: -1, Lag: 9},
		}, nil
	}}
	n := startNode(t, func(c *server.Config) { c.Cluster = f })
	status, err := n.client(n.admin).ClusterStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []api.ClusterNode{
		{ID: "n1", Address: "n1:9400", Role: "leader", Self: true, Voter: true, URL: "http://n1", Version: "test", Connected: true},
		{ID: "n2", Address: "n2:9400", Role: "follower", Voter: true, LastContactMs: 20, Lag: 3, URL: "http://n2", Version: "v2", Connected: true, ClockOffsetMs: -1},
		{ID: "n3", Address: "n3:9400", Role: "learner", LastContactMs: -1, Lag: 9},
	}
	equal(t, "mode", status.Mode, "cluster")
	equal(t, "leader_id", status.LeaderID, "n1")
	equal(t, "leader_addr", status.LeaderAddr, "http://n1")
	equal(t, "nodes", status.Nodes, want)
	// If the lag of the others is unknown, the status has the rest.
	f.members = func() ([]engine.Member, error) { return nil, api.Errorf(api.LeaderUnavailable, "no leader") }
	if status, err = n.client(n.admin).ClusterStatus(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(status.Nodes) != 3 || status.Nodes[1].LastContactMs != -1 || status.Nodes[1].URL != "http://n2" {
		t.Errorf("%+v", status.Nodes)
	}
}
