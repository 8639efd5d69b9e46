package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// quorumless is a namespace with members on the hosts one, two and three, of which only the first reports.
type quorumless struct {
	*front
	ns, service string
	stores      map[string]string // by name of the host
	sequence    int64
}

func startQuorumless(t *testing.T) (q *quorumless, admin string) {
	t.Helper()
	f, admin := start(t)
	q = &quorumless{front: f, stores: map[string]string{}}
	var stores []string
	for _, name := range []string{"one", "two", "three"} {
		id, credential := f.host(name, keyring.Host)
		if service := f.join(credential, "http://"+name+".test"); name == "one" {
			q.service = service
		}
		q.stores[name] = f.reachable(id)
		stores = append(stores, q.stores[name])
	}
	made, err := f.cloud(f.operator).CreateNamespace(t.Context(), "acme", api.CreateNamespaceRequest{Name: "orders", Spec: &api.NewNamespaceSpec{Replicas: new(3)}})
	if err != nil {
		t.Fatal(err)
	}
	q.ns = made.Resource.ID
	meta := &store.Meta{Principal: "test"}
	f.propose(&store.PlaceNamespace{Meta: meta, Id: q.ns, Generation: f.generation(q.ns), Stores: stores})
	n, err := f.store.Namespace(t.Context(), "", q.ns)
	if err != nil {
		t.Fatal(err)
	}
	f.propose(&store.FoundNamespace{Meta: meta, Id: q.ns, Generation: n.Generation, Incarnations: [][]byte{n.Incarnations[0][:]}})
	f.propose(&store.SettleNamespace{Meta: meta, Id: q.ns, Generation: n.Generation, Configurations: []uint64{1}})
	return q, admin
}

// report sends the report of the host one, which has the namespace's present groups open.
func (q *quorumless) report(group wire.GroupReport) {
	q.t.Helper()
	n, err := q.store.Namespace(q.t.Context(), "", q.ns)
	if err != nil {
		q.t.Fatal(err)
	}
	q.sequence++
	body, err := json.Marshal(wire.Report{Sequence: q.sequence, Cells: []wire.CellReport{{
		Namespace: q.ns, Generation: n.Generation, State: wire.Opened, Incarnations: n.Incarnations, Groups: []wire.GroupReport{group},
	}}})
	if err != nil {
		q.t.Fatal(err)
	}
	if a := q.send("POST", wire.ReportPath, q.service, string(body)); a.status != http.StatusOK {
		q.t.Fatalf("a report: %d %s", a.status, a.body)
	}
}

// An operator recovers a namespace from the only copy that is left. The answer says what is kept and what is given up. A
// repeat says when the groups take writes, and mints no further groups.
func TestRecoverACluster(t *testing.T) {
	t.Parallel()
	q, _ := startQuorumless(t)
	q.report(wire.GroupReport{Role: wire.Following, Last: 9, Term: 3})
	ops := q.cloud(q.operator)
	recovers := func() api.RecoverCluster {
		t.Helper()
		got, err := ops.RecoverCluster(t.Context(), q.ns, api.RecoverClusterRequest{From: "one", AcceptLoss: true})
		if err != nil || got.Store != q.stores["one"] {
			t.Fatalf("%+v, %v", got, err)
		}
		return got
	}
	end := []api.ClusterPosition{{Index: 9, Term: 3}}
	before, err := ops.Cluster(t.Context(), q.ns)
	if err != nil || !slices.Equal(before.Status.Members[0].Last, end) {
		t.Fatalf("before it, the cluster is %+v, %v", before.Status, err)
	}
	got := recovers()
	if got.Status != api.ClusterRecovering || !slices.Equal(got.Kept, end) || len(got.GivenUp) != 2 || got.GivenUp[0].HostName != "two" || got.GivenUp[1].Store != q.stores["three"] {
		t.Errorf("it says %+v", got)
	}
	after, err := ops.Cluster(t.Context(), q.ns)
	if err != nil || after.Generation != 2 || len(after.Status.Members) != 1 || after.Status.Members[0].Last != nil {
		t.Errorf("until the host reports the new groups, the cluster is %+v, %v", after, err)
	}
	if got := recovers(); got.Status != api.ClusterRecovering || len(got.Kept)+len(got.GivenUp) != 0 {
		t.Errorf("a repeat says %+v", got)
	}
	rows, err := ops.OperatorAudit(t.Context(), q.acme())
	if err != nil {
		t.Fatal(err)
	}
	_, operator, _ := keyring.Parse(q.operator)
	if last := lastChange(rows); last.Action != "recover-namespace" || last.Target != q.ns || last.Principal != operator {
		t.Errorf("the audit log ends with %+v", last)
	}
	q.report(wire.GroupReport{Role: wire.Leading, Epoch: 1, Generation: 2, Configuration: 10, Voters: []string{q.stores["one"]}, Last: 11, Term: 4})
	for limit := time.Now().Add(waitLimit); recovers().Status != api.ClusterRecovered; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the recovery does not end")
		}
	}
	if q.generation(q.ns) != 2 {
		t.Errorf("the namespace is in generation %d", q.generation(q.ns))
	}
}

// Recoveries that cannot be are refused and change nothing.
func TestRefusedRecoveries(t *testing.T) {
	t.Parallel()
	q, admin := startQuorumless(t)
	q.host("g", keyring.Gateway)
	q.host("new", keyring.Host)
	const body = `{"from":"one","accept_loss":true}`
	path := cloud + "/clusters/" + q.ns + "/recover"
	refused := func(name, path, key, body string, code api.Code, says string) {
		t.Helper()
		if a := q.send("POST", path, key, body); a.problem(t).Code != code || !strings.Contains(string(a.body), says) {
			t.Errorf("%s: %d %s, want %s with %q", name, a.status, a.body, code, says)
		}
	}
	refused("no report", path, q.operator, body, api.StateConflict, "does not report: start it again")
	q.report(wire.GroupReport{Role: wire.Following, Last: 9, Term: 3})
	refused("a tenant", path, admin, body, api.Forbidden, "fleet.operate")
	refused("a name", cloud+"/clusters/orders/recover", q.operator, body, api.NotFound, "a cluster has the id of its namespace")
	refused("no host", path, q.operator, `{"accept_loss":true}`, api.ValidationError, "name the host whose copy is kept")
	refused("no consent", path, q.operator, `{"from":"one"}`, api.ValidationError, "accept_loss")
	refused("an unknown field", path, q.operator, `{"from":"one","accept_loss":true,"wait":true}`, api.ValidationError, "wait")
	refused("an unknown host", path, q.operator, `{"from":"nobody","accept_loss":true}`, api.NotFound, "there is no host")
	refused("a gateway", path, q.operator, `{"from":"g","accept_loss":true}`, api.StateConflict, "it holds no namespaces")
	refused("a host without a copy", path, q.operator, `{"from":"new","accept_loss":true}`, api.StateConflict, "has no copy of it")
	refused("a silent host", path, q.operator, `{"from":"two","accept_loss":true}`, api.StateConflict, "does not report a whole copy")
	q.report(wire.GroupReport{Role: wire.Joining})
	refused("an empty copy", path, q.operator, body, api.StateConflict, "waits for its first entries")
	q.report(wire.GroupReport{Role: wire.Leading, Epoch: 1, Generation: 1, Configuration: 7, Voters: []string{q.stores["one"]}})
	refused("a leader", path, q.operator, body, api.StateConflict, "there is nothing to recover")
	if n := q.generation(q.ns); n != 1 {
		t.Errorf("the namespace is in generation %d", n)
	}
}
