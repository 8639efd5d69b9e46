package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The test follows a namespace through its life by its document, because hosts and gateways act on the
// document.
func TestLifeOfANamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "h1"))
	created := newNamespace("org_acme", "prod")
	created.Meta.Trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	w.ok(created, newKey(keyring.Namespace, "ns_prod", "k1"), newKey(keyring.Org, "org_acme", "t1"))

	expect := func(step string, phase fleet.Phase, desired, host string, ready bool, keys int, generation, observed int64) {
		t.Helper()
		n, d := w.namespace("ns_prod"), w.doc("ns_prod")
		gotNamespace := fleet.Namespace{Phase: n.Phase, Generation: n.Generation, Observed: n.Observed}
		if diff := cmp.Diff(fleet.Namespace{Phase: phase, Generation: generation, Observed: observed}, gotNamespace); diff != "" || n.On("host_h1") != (host != "") {
			t.Errorf("%s: the namespace (-want +got):\n%s", step, diff)
		}
		gotDoc := wire.Doc{Desired: d.Desired, Ready: d.Ready, Generation: d.Generation, Number: d.Number}
		if diff := cmp.Diff(wire.Doc{Desired: desired, Ready: ready, Generation: generation, Number: n.DocNumber}, gotDoc); diff != "" {
			t.Errorf("%s: the document (-want +got):\n%s", step, diff)
		}
		if d := w.docOf(wire.KindKeys, "ns_prod"); len(d.Keys) != keys {
			t.Errorf("%s: the document has the keys %+v, want %d", step, d.Keys, keys)
		}
		if (host == "") != (len(d.Members) == 0) || host != "" && (d.Members[0].Host != host || d.Members[0].URL != "http://h1") {
			t.Errorf("%s: the document has the members %+v, want one on %q", step, d.Members, host)
		}
		trace := "" // of the operation under way
		if phase == fleet.Provisioning {
			trace = created.Meta.Trace
		}
		if n.Trace != trace || d.Trace != trace {
			t.Errorf("%s: the trace is %q, the document's %q", step, n.Trace, d.Trace)
		}
	}
	operation := func(id string, status fleet.OperationStatus, code api.Code) {
		t.Helper()
		o, err := w.store().Operation(t.Context(), id)
		if err != nil || o.Namespace != "ns_prod" {
			t.Errorf("operation %s is %+v, %v", id, o, err)
		}
		if o.Status != status || o.ErrorCode != code {
			t.Errorf("operation %s is %s with %q, want %s with %q", id, o.Status, o.ErrorCode, status, code)
		}
		if (o.FinishedNs != 0) != (status != fleet.Running) {
			t.Errorf("operation %s, %s, ended at %d", id, status, o.FinishedNs)
		}
	}
	expect("created", fleet.Provisioning, wire.Open, "", false, 1, 1, 0)
	operation("op_create_prod", fleet.Running, "")
	w.pass(time.Second)
	w.ok(place("prod", "h1"))
	expect("placed", fleet.Provisioning, wire.Open, "host_h1", false, 1, 1, 0)
	w.ok(found("prod"), settle("prod"))
	expect("settled", fleet.Active, wire.Open, "host_h1", true, 1, 1, 1)
	operation("op_create_prod", fleet.Done, "")
	w.ok(deletion("prod"))
	expect("delete", fleet.Deleting, wire.Absent, "host_h1", false, 0, 2, 1)
	operation("op_delete_prod", fleet.Running, "")
	w.ok(removal("prod"))
	expect("removed", fleet.Deleted, wire.Absent, "host_h1", false, 0, 2, 2)
	operation("op_delete_prod", fleet.Done, "")

	if _, ok := w.credential("k1"); ok {
		t.Error("the namespace's key is there after its end")
	}
	if _, ok := w.credential("t1"); !ok {
		t.Error("the organisation's token went with a namespace")
	}
	if _, err := w.store().Namespace(t.Context(), "org_acme", "prod"); refused(err, api.NotFound) != nil {
		t.Error(err)
	}
	// The name may be used again; the id may not.
	again := newNamespace("org_acme", "prod")
	w.refused(api.Conflict, again)
	again.Id, again.OperationId = "ns_prod2", "op_create_prod2"
	w.ok(again)
	if n := len(w.docs(0)); n != 3 {
		t.Errorf("there are %d documents, the deleted namespace's and the organisation's tokens included", n)
	}
}

// Each step of the reconciler meets a namespace in each phase, with the right generation and with others. A
// stale step must never take effect, and a repeated step must not count twice.
func TestStepsByPhase(t *testing.T) {
	t.Parallel()
	prepare := map[string][]op{
		"nowhere":  {},
		"placed":   {place("x", "h1")},
		"founded":  {place("x", "h1"), found("x")},
		"active":   {place("x", "h1"), found("x"), settle("x")},
		"deleting": {place("x", "h1"), found("x"), settle("x"), deletion("x")},
		"deleted":  {place("x", "h1"), found("x"), settle("x"), deletion("x"), removal("x")},
		"unplaced": {deletion("x")}, // deleted before it was placed
	}
	generations := map[string]int64{"nowhere": 1, "placed": 1, "founded": 1, "active": 1, "deleting": 2, "deleted": 2, "unplaced": 2}
	const done, once, same, refusal = "done", "once", "same", "refused" // once: its generation ends with it
	want := map[string]map[string]string{
		"nowhere":  {"place": done, "elsewhere": done, "found": refusal, "settle": refusal, "remove": refusal},
		"placed":   {"place": same, "elsewhere": refusal, "found": done, "settle": refusal, "remove": refusal},
		"founded":  {"place": same, "elsewhere": once, "found": same, "settle": done, "remove": refusal},
		"active":   {"place": same, "elsewhere": once, "found": same, "settle": same, "remove": refusal},
		"deleting": {"place": refusal, "elsewhere": refusal, "found": refusal, "settle": refusal, "remove": done},
		"deleted":  {"place": refusal, "elsewhere": refusal, "found": refusal, "settle": refusal, "remove": same},
		"unplaced": {"place": refusal, "elsewhere": refusal, "found": refusal, "settle": refusal, "remove": done},
	}
	step := func(name string, generation int64) op {
		switch name {
		case "place", "elsewhere":
			o := place("x", map[string]string{"place": "h1", "elsewhere": "h2"}[name])
			o.Generation = generation
			return o
		case "found":
			o := found("x")
			o.Generation = generation
			return o
		case "settle":
			o := settle("x")
			o.Generation = generation
			return o
		}
		o := removal("x")
		o.Generation = generation
		return o
	}
	for phase, ops := range prepare {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			for name, outcome := range want[phase] {
				w := newWorld(t)
				w.ok(newOrg("acme"), newHost("h1"), start("h1", "h1"), newHost("h2"), start("h2", "h2"), newNamespace("org_acme", "x"))
				w.ok(ops...)
				for _, wrong := range []int64{generations[phase] - 1, generations[phase] + 1} {
					if wrong > 0 {
						w.refused(api.StateConflict, step(name, wrong))
					}
				}
				before, o := w.dump(), step(name, generations[phase])
				switch outcome {
				case refusal:
					w.refused(api.StateConflict, o)
				case same:
					w.ok(o)
					if diff := difference(before, w.dump()); diff != "" {
						t.Errorf("%s again has changed the state: %s", name, diff)
					}
				case once:
					w.ok(o)
					w.refused(api.StateConflict, o)
				case done:
					w.ok(o)
					if difference(before, w.dump()) == "" {
						t.Errorf("%s has changed nothing", name)
					}
					after := w.dump()
					w.ok(o)
					if diff := difference(after, w.dump()); diff != "" {
						t.Errorf("%s again has changed the state: %s", name, diff)
					}
				}
			}
		})
	}
	w := newWorld(t)
	for _, name := range []string{"place", "found", "settle", "remove"} {
		w.refused(api.NotFound, step(name, 1))
	}
	w.ok(newOrg("acme"), newGateway("g1"), newNamespace("org_acme", "x"))
	w.refused(api.NotFound, place("x", "h1"))
}

func TestCreateNamespaceRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refused(api.NotFound, newNamespace("org_acme", "a"))
	w.ok(newOrg("acme"), newOrg("other"), newNamespace("org_acme", "a"))
	twin := newNamespace("org_acme", "a")
	twin.Id, twin.OperationId = "ns_twin", "op_twin"
	w.refused(api.Conflict, twin)
	twin.Org = "org_other" // names are an organisation's own
	w.ok(twin)
	stolen := newNamespace("org_acme", "b")
	stolen.OperationId = "op_create_a"
	w.refused(api.Conflict, stolen)
	stolen.Id, stolen.OperationId = "ns_a", "op_b"
	w.refused(api.Conflict, stolen)
	// A name stays taken until the namespace is deleted.
	w.ok(deletion("a"))
	again := newNamespace("org_acme", "a")
	again.Id, again.OperationId = "ns_a2", "op_a2"
	w.refused(api.Conflict, again)
	w.ok(removal("a"), again)
}

func TestUpdateNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"))
	update := func(protect bool, expect int64) *UpdateNamespace {
		return &UpdateNamespace{Meta: by("token"), Id: "ns_a", DeletionProtection: &protect, ExpectVersion: expect}
	}
	number := w.namespace("ns_a").DocNumber
	if refusal := w.refused(api.PreconditionFailed, update(true, 7)); refusal.Details["resource_version"] != int64(1) {
		t.Errorf("details are %v", refusal.Details)
	}
	w.ok(update(true, 1))
	n := w.namespace("ns_a")
	if !n.Spec.DeletionProtection || n.Version != 2 || n.Generation != 1 {
		t.Errorf("updated to %+v", n)
	}
	if n.DocNumber != number {
		t.Error("hosts and gateways were told of what they do not see")
	}
	before := w.dump()
	w.ok(update(true, 2), &UpdateNamespace{Meta: by("token"), Id: "ns_a"})
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("what is so already was written again: %s", diff)
	}
	w.refused(api.StateConflict, deletion("a"))
	w.ok(update(false, 0), deletion("a"))
	w.refused(api.StateConflict, update(true, 0))
	w.ok(removal("a"))
	w.refused(api.NotFound, update(true, 0))
	w.refused(api.NotFound, deletion("a"))
}

func TestDeleteNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newKey(keyring.Namespace, "ns_a", "k1"))
	w.refused(api.NotFound, deletion("b"))
	o := deletion("a")
	o.ExpectVersion = 9
	w.refused(api.PreconditionFailed, o)
	stolen := deletion("a")
	stolen.OperationId = "op_create_a"
	w.refused(api.Conflict, stolen)
	o.ExpectVersion = 1
	w.ok(o)
	create, err := w.store().Operation(t.Context(), "op_create_a")
	if err != nil {
		t.Fatal(err)
	}
	if create.Status != fleet.Failed || create.ErrorCode != api.Conflict || create.ErrorText != "the namespace was deleted before it was ready" {
		t.Errorf("the create of what was deleted meanwhile is %+v", create)
	}
	// A repeat returns the running operation, with any expected version.
	repeat := deletion("a")
	repeat.OperationId, repeat.ExpectVersion = "op_other", 1
	if r := do[*DeleteNamespaceResult](w, repeat); r.OperationId != "op_delete_a" {
		t.Errorf("a repeated delete answers %v", r)
	}
	w.refused(api.StateConflict, newKey(keyring.Namespace, "ns_a", "k2"))
	w.refused(api.StateConflict, &RotateCredential{Meta: by("token"), OldId: "k1", NewId: "k2", NewHash: hash("k2"), OldExpiresNs: 1})
	w.ok(removal("a"))
	w.refused(api.NotFound, newKey(keyring.Namespace, "ns_a", "k2"))
}

// A change of anything that a document shows gives the document a new number. Nothing else does.
func TestDocumentNumbers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newOrg("other"), newHost("h1"), newHost("h2"), start("h1", "h1"), start("h2", "h2"), join("h1", "http://1"))
	for _, name := range []string{"a", "b", "c", "gone"} {
		w.ok(newNamespace("org_acme", name), place(name, "h1"))
	}
	w.ok(newNamespace("org_other", "x"), place("x", "h2"), deletion("gone"), removal("gone"))
	w.ok(newKey(keyring.Namespace, "ns_a", "k1"), newKey(keyring.Org, "org_acme", "t1"))
	protect := true
	for _, c := range []struct {
		name string
		op   op
		want string // the subjects of new documents, in their order
	}{
		{"key", newKey(keyring.Namespace, "ns_a", "k2"), "keys of ns_a"},
		{"rotated key", &RotateCredential{Meta: by("t"), OldId: "k2", NewId: "k3", NewHash: hash("k3"), OldExpiresNs: epochNs + int64(time.Hour)}, "keys of ns_a"},
		{"revoked key", &RevokeCredential{Meta: by("t"), Id: "k2"}, "keys of ns_a"},
		{"token", newKey(keyring.Org, "org_acme", "t2"), "tokens of org_acme"},
		{"revoked token", &RevokeCredential{Meta: by("t"), Id: "t2"}, "tokens of org_acme"},
		{"founded", found("b"), "ns_b"},
		{"founded again", found("b"), ""},
		{"settled", settle("b"), "ns_b"},
		{"address", join("h1", "http://2"), "ns_a ns_b ns_c"},
		{"same address", join("h1", "http://2"), ""},
		{"only a version", &JoinHost{Meta: by("h"), Id: "host_h1", Address: "http://2", Version: "v2", Raft: "h1:7000"}, ""},
		{"protection", &UpdateNamespace{Meta: by("t"), Id: "ns_a", DeletionProtection: &protect}, ""},
		{"operator's key", newKey(keyring.CloudOperator, "", "o1"), ""},
		{"deleting", deletion("b"), "ns_b"},
		{"token past a deleting one", newKey(keyring.Org, "org_acme", "t3"), "tokens of org_acme"},
		{"address of a deleting one", join("h1", "http://3"), "ns_a ns_b ns_c"},
		{"another organisation's token", newKey(keyring.Org, "org_other", "t4"), "tokens of org_other"},
	} {
		last, changed := w.changes.watch()
		w.ok(c.op)
		got := ""
		for i, d := range w.docs(last) {
			if i > 0 {
				got += " "
			}
			switch d.Kind {
			case wire.KindPlacement:
				got += d.Namespace
			case wire.KindKeys:
				got += "keys of " + d.Namespace
			case wire.KindTokens:
				got += "tokens of " + d.Org
			}
			if d.Number != last+int64(i)+1 {
				t.Errorf("%s: number %d after %d", c.name, d.Number, last)
			}
		}
		if got != c.want {
			t.Errorf("%s: new documents of %q, want %q", c.name, got, c.want)
		}
		select {
		case <-changed:
		default:
			if c.want != "" {
				t.Errorf("%s: nobody was told", c.name)
			}
		}
	}
}

// Documents are listed in the order of their numbers, by page, so that a follower can continue after an
// interruption.
func TestDocsByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"))
	for _, name := range []string{"a", "b", "c"} {
		w.ok(newNamespace("org_acme", name))
	}
	w.ok(newKey(keyring.Namespace, "ns_a", "k1"), newNamespace("org_acme", "d"), newNamespace("org_acme", "e"))
	got, after := "", int64(0)
	for {
		docs, err := w.store().Docs(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(docs) == 0 {
			break
		}
		for _, d := range docs {
			got += d.Name
			if d.Kind != wire.KindPlacement {
				got += " " + d.Kind + " "
			}
			after = d.Number
		}
	}
	if want := "abc keys de"; got != want {
		t.Errorf("documents of %s, want %s", got, want)
	}
}
