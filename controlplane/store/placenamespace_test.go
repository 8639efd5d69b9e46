package store

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// newFleet returns a world with an organisation and hosts, each with a store of its own name.
func newFleet(t testing.TB, hosts ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.ok(newOrg("acme"))
	for _, host := range hosts {
		w.ok(newHost(host), start(host, host))
	}
	return w
}

// newReplicated creates namespace x with a number of replicas.
func newReplicated(n uint32) *CreateNamespace {
	o := newNamespace("org_acme", "x")
	o.Spec.Replicas = n
	return o
}

// atGeneration plans a step for a generation.
func atGeneration[O interface {
	*PlaceNamespace | *SettleNamespace | *RemoveNamespace | *FoundNamespace
}](generation int64, o O) O {
	switch o := any(o).(type) {
	case *PlaceNamespace:
		o.Generation = generation
	case *SettleNamespace:
		o.Generation = generation
	case *RemoveNamespace:
		o.Generation = generation
	case *FoundNamespace:
		o.Generation = generation
	}
	return o
}

// wantMembers fails the test unless namespace x has these stores with these roles in its document, and the same ones in
// the state.
func (w *world) wantMembers(step string, want ...string) {
	w.t.Helper()
	var got []string
	d, n := w.doc("ns_x"), w.namespace("ns_x")
	for i, m := range d.Members {
		got = append(got, m.Store[len("store_"):]+" "+m.Role)
		host := m.Host[len("host_"):]
		if m.URL != "http://"+host || m.Raft != host+":7000" {
			w.t.Errorf("%s: the addresses of %s are %s and %s", step, m.Store, m.URL, m.Raft)
		}
		if stored := n.Members[i]; stored.Store != m.Store || stored.Host != m.Host || stored.Leaving != (m.Role == wire.Leaving) {
			w.t.Errorf("%s: the document has the member %+v, the namespace %+v", step, m, stored)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s: the members (-want +got):\n%s", step, diff)
	}
	if d.Epoch != 1 {
		w.t.Errorf("%s: the epoch is %d", step, d.Epoch)
	}
}

// wantCounts fails the test unless the hosts have these numbers of members.
func (w *world) wantCounts(step string, want map[string]int) {
	w.t.Helper()
	for name, n := range want {
		if h, err := w.store().Host(w.t.Context(), name); err != nil || h.Namespaces != n || h.Cells != n {
			w.t.Errorf("%s: host %s has %d namespaces with %d cells (%v), want %d", step, name, h.Namespaces, h.Cells, err, n)
		}
	}
}

// A list of three has one founder. Once the founding is recorded, a member is replaced by another store: it leaves, its
// document says so, and it goes when the new list is settled.
func TestTheListOfMembersChanges(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c", "d")
	w.ok(newReplicated(3), place("x", "a", "b", "c"))
	w.wantMembers("placed", "a found", "b join", "c join")
	w.refused(api.StateConflict, place("x", "a", "b", "d")) // the founding is not recorded
	w.refused(api.StateConflict, settle("x", 4))
	w.ok(found("x"))
	w.wantMembers("founded", "a join", "b join", "c join")
	w.refused(api.StateConflict, settle("x", 4, 4))
	w.ok(settle("x", 4))
	if n := w.namespace("ns_x"); n.Phase != fleet.Active || n.Observed != 1 || n.Operation != "" {
		t.Errorf("settled, the namespace is %+v", n)
	}
	w.wantCounts("settled", map[string]int{"a": 1, "b": 1, "c": 1, "d": 0})

	version := w.host("d").Version
	w.ok(place("x", "b", "c", "d"))
	if w.host("d").Version == version {
		t.Error("a host with one member more has its old version")
	}
	w.refused(api.StateConflict, place("x", "b", "c", "d")) // it has another generation
	w.wantMembers("changed", "b join", "c join", "d join", "a leaving")
	w.wantCounts("changed", map[string]int{"a": 1, "b": 1, "c": 1, "d": 1})
	if n := w.namespace("ns_x"); n.Generation != 2 || n.Observed != 1 || n.Phase != fleet.Active {
		t.Errorf("changed, the namespace is %+v", n)
	}
	w.refused(api.StateConflict, atGeneration(2, settle("x", 3))) // an earlier configuration than the settled one
	w.refused(api.StateConflict, settle("x", 9))                  // of an earlier generation
	w.ok(atGeneration(2, settle("x", 9)))
	w.wantMembers("settled again", "b join", "c join", "d join")
	w.wantCounts("settled again", map[string]int{"a": 0, "b": 1, "c": 1, "d": 1})
	if d := w.doc("ns_x"); !slices.Equal(d.Configurations, []uint64{9}) {
		t.Errorf("the document has the configurations %v", d.Configurations)
	}
	before := w.dump()
	w.ok(atGeneration(2, settle("x", 9)))
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("settling again has changed the state: %s", diff)
	}
	w.reopen()
	w.wantMembers("reopened", "b join", "c join", "d join")

	w.ok(deletion("x"), atGeneration(3, removal("x")))
	w.wantMembers("removed", "b join", "c join", "d join") // for a host that was away
	w.wantCounts("removed", map[string]int{"a": 0, "b": 0, "c": 0, "d": 0})
}

// A member that leaves and is listed again before the change has settled stays a member.
func TestALeavingMemberMayBeListedAgain(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c", "d", "e")
	w.ok(newReplicated(3), place("x", "a", "b", "c"), found("x"), settle("x", 1))
	w.ok(place("x", "a", "b", "d"), atGeneration(2, place("x", "e", "b", "d")))
	w.wantMembers("two leave", "e join", "b join", "d join", "a leaving", "c leaving")
	w.ok(atGeneration(3, place("x", "a", "b", "c")))
	w.wantMembers("listed again", "a join", "b join", "c join", "e leaving", "d leaving")
	w.ok(atGeneration(4, place("x", "b"))) // fewer, because there are not enough hosts
	w.wantMembers("one", "b join", "a leaving", "c leaving", "e leaving", "d leaving")
	w.ok(atGeneration(5, settle("x", 7)))
	w.wantMembers("settled", "b join")
}

// A list that could not work is refused, and so is one of another length than the namespace wants at first.
func TestAListIsRefused(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c", "d")
	w.ok(newReplicated(3), newHost("plain"))
	plain := start("plain", "plain")
	plain.Raft = ""
	w.ok(plain)
	w.refused(api.NotFound, place("x", "a", "b", "none"))
	w.refused(api.StateConflict, place("x", "a"))
	w.refused(api.StateConflict, place("x", "a", "b", "plain")) // others cannot reach it
	w.ok(start("d", "d2"))
	w.refused(api.StateConflict, place("x", "a", "b", "d")) // it is lost
	w.ok(place("x", "a", "b", "d2"))
	w.ok(found("x"), settle("x", 1))
	w.refused(api.StateConflict, place("x", "a", "d", "d2")) // both are of one host
	w.ok(start("d", "d"))
	w.ok(place("x", "a", "b", "d"))
	w.wantMembers("the host is back", "a join", "b join", "d join", "d2 leaving")
	w.ok(atGeneration(2, settle("x", 2)), start("d", "d3"))
	w.ok(atGeneration(2, place("x", "c", "b", "d"))) // a lost member may wait for its turn
	w.refused(api.StateConflict, atGeneration(3, place("x", "c", "b", "d2")))

	alone := newNamespace("org_acme", "y")
	w.ok(alone, place("y", "plain"), found("y"), settle("y"))
	w.refused(api.StateConflict, place("y", "a")) // plain cannot hand over to it

	silenced := join("b", "http://b")
	silenced.Raft = ""
	w.ok(silenced)
	w.refused(api.StateConflict, atGeneration(3, place("x", "a", "b", "d")))
	w.ok(atGeneration(3, place("x", "a", "c", "d"))) // b leaves, and the others go on without it
}

// host finds a host by name.
func (w *world) host(name string) fleet.Host {
	w.t.Helper()
	h, err := w.store().Host(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// A lost founder is replaced together with the members that would have joined its groups.
func TestALostFounderIsReplacedWithAllMembers(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c", "d")
	w.ok(newReplicated(3), place("x", "a", "b", "c"))
	o := place("x", "b", "c", "d")
	o.Incarnations = minted("y")
	w.ok(start("b", "b2"))
	w.refused(api.StateConflict, o) // only a member is lost
	w.ok(start("a", "a2"))
	w.refused(api.StateConflict, o) // b is lost
	o.Stores[0] = "store_b2"
	w.ok(o)
	w.wantMembers("replaced", "b2 found", "c join", "d join")
	w.wantRole("replaced", wire.Found, "y")
	w.wantCounts("replaced", map[string]int{"a": 0, "b": 1, "c": 1, "d": 1})
}

// Another number of replicas is a new generation, which hosts and the reconciler see at once.
func TestReplicasChange(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c")
	w.ok(newReplicated(1), place("x", "a"), found("x"), settle("x"))
	number := w.namespace("ns_x").DocNumber
	w.ok(replicas("x", 3))
	n := w.namespace("ns_x")
	if n.Spec.Replicas != 3 || n.Generation != 2 || n.Observed != 1 || n.DocNumber == number {
		t.Errorf("the namespace is %+v", n)
	}
	before := w.dump()
	w.ok(replicas("x", 3))
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("the same number again has changed the state: %s", diff)
	}
	w.ok(atGeneration(2, place("x", "a", "b", "c")), atGeneration(3, settle("x", 5)))
	w.wantMembers("settled", "a join", "b join", "c join")
	w.ok(deletion("x"))
	w.refused(api.StateConflict, replicas("x", 1))
}

// The documents of a namespace change with the addresses and the store of each of its hosts.
func TestDocumentsFollowTheHostsOfAllMembers(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c", "d")
	w.ok(newReplicated(3), place("x", "a", "b", "c"), found("x"), settle("x", 1), place("x", "a", "b", "d"))
	moved := join("c", "http://c")
	moved.Raft = "elsewhere:1"
	for _, c := range []struct {
		name string
		o    *JoinHost
		news bool
	}{
		{"address of a member", join("b", "http://b2"), true},
		{"the same address", join("b", "http://b2"), false},
		{"raft address of a leaving member", moved, true},
		{"another store of a member", start("d", "d2"), true},
	} {
		last, _ := w.changes.watch()
		w.ok(c.o)
		if got := len(w.docs(last)) > 0; got != c.news {
			t.Errorf("%s: a new document is %v", c.name, got)
		}
	}
	if m := w.doc("ns_x").Members; m[1].URL != "http://b2" || m[3].Raft != "elsewhere:1" || !w.namespace("ns_x").Members[2].Lost {
		t.Errorf("the members are %+v", m)
	}
}

// The logs of earlier versions have placements on a host, and settlings without configurations.
func TestOpsOfOneHostApply(t *testing.T) {
	t.Parallel()
	w := newFleet(t, "a", "b", "c")
	w.ok(newReplicated(3), newNamespace("org_acme", "y"), newGateway("g1"), newHost("new"))
	apply := func(o op, code api.Code) {
		t.Helper()
		results, err := w.try(encode(t, FeatureLevel, w.clockNs, o))
		if err != nil {
			t.Fatal(err)
		}
		refusal, is := results[0].(*api.Error)
		if is != (code != "") || is && refused(refusal, code) != nil {
			t.Errorf("%T %v: answered %v, want %q", o, o, results[0], code)
		}
	}
	on := func(name, host string) *PlaceNamespace {
		o := place(name)
		o.HostId = host
		return o
	}
	bare := func(name string) *SettleNamespace {
		return &SettleNamespace{Meta: by("reconciler"), Id: "ns_" + name, Generation: 1}
	}
	apply(on("y", "host_g1"), api.StateConflict)
	apply(on("y", "host_new"), api.StateConflict) // it has no store
	apply(on("y", "host_none"), api.NotFound)
	apply(on("y", "host_a"), "")
	apply(on("y", "host_a"), "") // a repeat
	apply(on("y", "host_b"), api.StateConflict)
	if n := w.namespace("ns_y"); !listed(n, "a") || n.Generation != 1 {
		t.Errorf("the namespace is %+v", n)
	}
	w.ok(found("y"), place("x", "a", "b", "c"), found("x"))
	apply(bare("y"), "")
	apply(bare("x"), api.StateConflict) // earlier versions had no such lists
	if n := w.namespace("ns_y"); n.Phase != fleet.Active || n.Configurations != nil {
		t.Errorf("the namespace is %+v", n)
	}
}
