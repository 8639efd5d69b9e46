package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// mover is a namespace of one replica on the host one, and the host two, which has no member of it. Both hosts report.
type mover struct {
	*front
	ns       string
	ids      map[string]string // by name of the host, as are the others
	stores   map[string]string
	services map[string]string
	reports  map[string]int // number of reports so far
}

func startMover(t *testing.T) (m mover, admin string) {
	t.Helper()
	f, admin := start(t)
	m = mover{front: f, ids: map[string]string{}, stores: map[string]string{}, services: map[string]string{}, reports: map[string]int{}}
	for _, name := range []string{"one", "two"} {
		id, credential := f.host(name, keyring.Host)
		m.ids[name], m.services[name] = id, f.join(credential, "http://"+name+".test")
		m.stores[name] = f.reachable(id)
	}
	m.ns = f.namespace("acme", "orders")
	f.settle(m.ns, m.ids["one"])
	m.report("one", 1, "one")
	m.report("two", 1)
	return m, admin
}

// report sends the report of a host that acts on a generation. leads names the host of the only voter if the host leads.
func (m mover) report(name string, generation int64, leads ...string) {
	m.t.Helper()
	group, cells := `{"role":"`+wire.Following+`"}`, ""
	for _, voter := range leads {
		group = fmt.Sprintf(`{"role":%q,"epoch":1,"generation":%d,"configuration":%d,"voters":[%q]}`, wire.Leading, generation, generation, m.stores[voter])
	}
	if name == "one" || generation > 1 {
		n, err := m.store.Namespace(m.t.Context(), "", m.ns)
		if err != nil {
			m.t.Fatal(err)
		}
		incarnation, err := n.Incarnations[0].MarshalText()
		if err != nil {
			m.t.Fatal(err)
		}
		cells = fmt.Sprintf(`{"namespace":%q,"generation":%d,"state":%q,"incarnations":[%q],"groups":[%s]}`, m.ns, generation, wire.Opened, incarnation, group)
	}
	m.reports[name]++
	if a := m.send("POST", wire.ReportPath, m.services[name], fmt.Sprintf(`{"sequence":%d,"cells":[%s]}`, m.reports[name], cells)); a.status != http.StatusOK {
		m.t.Fatalf("a report: %d %s", a.status, a.body)
	}
}

// move moves the namespace and checks the status.
func (m mover) move(from, to, want string) {
	m.t.Helper()
	if status, err := m.cloud(m.operator).MoveCluster(m.t.Context(), m.ns, from, to); err != nil || status != want {
		m.t.Fatalf("a move from %s to %s: %q, %v, want %q", from, to, status, err, want)
	}
}

// An operator moves the only member of a namespace. The list changes at once and is settled once the new member leads. A
// repeat changes nothing, and the namespace stays where it is.
func TestMoveAMember(t *testing.T) {
	t.Parallel()
	m, _ := startMover(t)
	m.move("one", m.ids["two"], api.ClusterMoving)
	ops := m.cloud(m.operator)
	c, err := ops.Cluster(t.Context(), m.ns)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Status.Members; c.Generation != 2 || len(got) != 2 || got[0].Store != m.stores["two"] || got[0].Leaving || got[1].Store != m.stores["one"] || !got[1].Leaving {
		t.Fatalf("the members after the move, of generation %d: %+v", c.Generation, got)
	}
	rows, err := ops.OperatorAudit(t.Context(), m.acme())
	if err != nil {
		t.Fatal(err)
	}
	_, operator, _ := keyring.Parse(m.operator)
	if last := lastChange(rows); last.Action != "place-namespace" || last.Target != m.ns || last.Principal != operator {
		t.Errorf("the audit log ends with %+v", last)
	}
	m.move("one", "two", api.ClusterMoving)
	if a := m.send("POST", cloud+"/clusters/"+m.ns+"/move", m.operator, `{"from":"two","to":"one"}`); a.problem(t).Code != api.StateConflict || !strings.Contains(string(a.body), "wait until its observed_generation is 2") {
		t.Errorf("a second move before the end of the first: %d %s", a.status, a.body)
	}
	m.report("one", 2)
	m.report("two", 2, "two")
	for limit := time.Now().Add(waitLimit); len(c.Status.Members) != 1; time.Sleep(time.Millisecond) {
		if c, err = ops.Cluster(t.Context(), m.ns); err != nil || time.Now().After(limit) {
			t.Fatalf("the move does not end: %+v, %v", c.Status, err)
		}
	}
	if c.Status.Members[0].Store != m.stores["two"] || c.Status.ObservedGeneration != 2 {
		t.Errorf("the move ends with %+v", c.Status)
	}
	m.move("one", "two", api.ClusterMoved)
	m.move("two", "one", api.ClusterMoving) // the other way round, in a generation of its own
}

// Moves that cannot be are refused and change nothing.
func TestRefusedMoves(t *testing.T) {
	t.Parallel()
	m, admin := startMover(t)
	m.host("new", keyring.Host)
	m.host("g", keyring.Gateway)
	const body = `{"from":"one","to":"two"}`
	path := cloud + "/clusters/" + m.ns + "/move"
	tries := []struct {
		name, path, key, body string
		code                  api.Code
		says                  string
	}{
		{"a tenant", path, admin, body, api.Forbidden, "fleet.operate"},
		{"a name", cloud + "/clusters/orders/move", m.operator, body, api.NotFound, "a cluster has the id of its namespace"},
		{"no hosts", path, m.operator, "", api.ValidationError, "from"},
		{"no target", path, m.operator, `{"from":"one"}`, api.ValidationError, "name the host that gets the member"},
		{"an unknown field", path, m.operator, `{"from":"one","to":"two","wait":true}`, api.ValidationError, "wait"},
		{"the same host", path, m.operator, `{"from":"one","to":"` + m.ids["one"] + `"}`, api.ValidationError, "name another one"},
		{"an unknown host", path, m.operator, `{"from":"one","to":"nobody"}`, api.NotFound, "there is no host"},
		{"a gateway", path, m.operator, `{"from":"one","to":"g"}`, api.StateConflict, "it holds no namespaces"},
		{"a host that never joined", path, m.operator, `{"from":"one","to":"new"}`, api.StateConflict, "start it"},
		{"a host without a member", path, m.operator, `{"from":"two","to":"new"}`, api.StateConflict, "move one from host one"},
	}
	for _, c := range tries {
		if a := m.send("POST", c.path, c.key, c.body); a.problem(t).Code != c.code || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s: %d %s, want %s with %q", c.name, a.status, a.body, c.code, c.says)
		}
	}
	meta := &store.Meta{Principal: "test"}
	m.propose(&store.PauseReconcile{Meta: meta, Id: m.ns})
	if a := m.send("POST", path, m.operator, body); a.problem(t).Code != api.StateConflict || !strings.Contains(string(a.body), "resume it first") {
		t.Errorf("a paused namespace: %d %s", a.status, a.body)
	}
	m.propose(&store.ResumeReconcile{Meta: meta, Id: m.ns})
	m.propose(&store.DrainHost{Meta: meta, Id: m.ids["two"]})
	if a := m.send("POST", path, m.operator, body); a.problem(t).Code != api.StateConflict || !strings.Contains(string(a.body), "it drains") {
		t.Errorf("a target that drains: %d %s", a.status, a.body)
	}
	if g := m.generation(m.ns); g != 1 {
		t.Errorf("the refused moves have made generation %d", g)
	}
}
