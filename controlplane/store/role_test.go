package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// keyWithRoles returns an op that creates a key of namespace a.
func keyWithRoles(id string, roles ...string) *CreateCredential {
	o := newKey(keyring.Namespace, "ns_a", id)
	o.Credential.Roles = roles
	return o
}

// A document shows the present roles of its namespace, under a new number.
func TestRolesAreInTheDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newNamespace("org_acme", "b"))
	before := w.doc("ns_b").Number
	if r := do[*PutRoleResult](w, putRole("ns_a", "auditor", true, "job.read", "queue.read")); r.Version != 1 || !r.Created || r.CreatedNs != w.clockNs {
		t.Errorf("made: %v", r)
	}
	w.ok(putRole("ns_a", "feeder", true, "job.enqueue"))
	w.pass(time.Second)
	if r := do[*PutRoleResult](w, putRole("ns_a", "auditor", false, "job.read")); r.Version != 2 || r.Created || r.CreatedNs != epochNs {
		t.Errorf("replaced: %v", r)
	}
	d := w.docOf(wire.KindKeys, "ns_a")
	want := []wire.Role{{Name: "auditor", Permissions: []string{"job.read"}}, {Name: "feeder", Permissions: []string{"job.enqueue"}}}
	if fmt.Sprint(d.Roles) != fmt.Sprint(want) || d.Number != before+3 {
		t.Errorf("document %d shows %v, want %v in %d", d.Number, d.Roles, want, before+3)
	}
	if now := w.docOf(wire.KindKeys, "ns_b"); now.Number != 0 || w.doc("ns_b").Number != before {
		t.Errorf("the other namespace's document is now %+v", now)
	}
	w.ok(dropRole("ns_a", "feeder"))
	if d := w.docOf(wire.KindKeys, "ns_a"); len(d.Roles) != 1 || d.Number != before+4 {
		t.Errorf("after a delete document %d shows %v", d.Number, d.Roles)
	}
	w.refused(api.NotFound, dropRole("ns_a", "feeder"))
	w.refused(api.NotFound, putRole("ns_a", "feeder", false, "job.read"))
	w.refused(api.Conflict, putRole("ns_a", "auditor", true, "job.read"))
	w.refused(api.NotFound, putRole("ns_none", "auditor", true, "job.read"))
	stale := putRole("ns_a", "auditor", false, "job.read")
	stale.IfVersion = 1
	w.refused(api.PreconditionFailed, stale)
	w.refused(api.PreconditionFailed, &DeleteRole{Meta: by("token"), Namespace: "ns_a", Name: "auditor", IfVersion: 3})
}

// A key has only roles of its own namespace. A role cannot be deleted while a key has it.
func TestRolesOfKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newNamespace("org_acme", "b"), putRole("ns_b", "other", true, "job.read"))
	w.refused(api.ValidationError, keyWithRoles("k1", "worker", "auditor"))
	w.refused(api.ValidationError, keyWithRoles("k1", "other"))
	w.ok(putRole("ns_a", "auditor", true, "job.read"), putRole("ns_a", "feeder", true, "job.enqueue"), keyWithRoles("k1", "worker", "auditor"))
	w.refused(api.Conflict, dropRole("ns_a", "auditor"))

	change := func(roles ...string) *SetCredential {
		c, _ := w.credential("k1")
		return &SetCredential{Meta: by("token"), Id: "k1", Roles: roles, JudgedVersion: c.Version}
	}
	w.refused(api.ValidationError, change("nobody"))
	w.ok(change("feeder")) // disabled, too
	w.refused(api.Conflict, dropRole("ns_a", "feeder"))
	w.ok(dropRole("ns_a", "auditor"))

	token := newKey(keyring.Org, "org_acme", "t1")
	w.ok(token)
	w.refused(api.ValidationError, &SetCredential{Meta: by("token"), Id: "t1", Roles: []string{"feeder"}, Enabled: true, JudgedVersion: 1})

	// An expired key does not keep its role, although it is listed for some time.
	ending := keyWithRoles("k2", "late")
	ending.Credential.ExpiresNs = w.clockNs + int64(time.Minute)
	w.ok(putRole("ns_a", "late", true, "job.read"), ending)
	w.refused(api.Conflict, dropRole("ns_a", "late"))
	w.pass(time.Minute)
	w.ok(dropRole("ns_a", "late"))

	w.ok(deletion("a"))
	w.refused(api.StateConflict, putRole("ns_a", "late", true, "job.read"))
	w.ok(removal("a"))
	w.refused(api.NotFound, dropRole("ns_a", "feeder"))
	if all, err := w.store().Roles(t.Context(), "ns_a"); err != nil || len(all) != 0 {
		t.Errorf("after its end the namespace has %v, %v", all, err)
	}
}

// An op on a role is refused if the caller's token has changed since its rights were compared.
func TestRolesAreJudgedWithTheirCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newNamespace("org_acme", "a"), newKey(keyring.Org, "org_acme", "token"), putRole("ns_a", "r", true, "job.read"))
	put, drop := putRole("ns_a", "r", false, "job.work"), dropRole("ns_a", "r")
	put.CallerVersion, drop.CallerVersion = 2, 2
	w.refused(api.Conflict, put)
	w.refused(api.Conflict, drop)
	put.CallerVersion, drop.CallerVersion = 1, 1
	w.ok(put, drop)
}
