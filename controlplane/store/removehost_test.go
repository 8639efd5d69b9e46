package store

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

func dropHost(name string) *RemoveHost { return &RemoveHost{Meta: by("op"), Id: "host_" + name} }

// A removed host leaves its name, and nothing that another host could use: its credential has ended, and its
// stores stay bound to its id.
func TestRemoveHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newHost("h1"), newHost("h2"), newGateway("g1"), start("h1", "a"), start("h1", "b"), start("h2", "c"))
	stale := dropHost("h1")
	stale.ExpectVersion = 1
	w.refused(api.PreconditionFailed, stale)
	w.ok(dropHost("h1"), dropHost("g1"))
	w.refused(api.NotFound, dropHost("h1"))
	w.refused(api.NotFound, start("h1", "a"))
	if _, ok := w.credential("cred_h1"); ok {
		t.Error("the credential of a removed host is there")
	}
	for _, store := range []string{"a", "b"} {
		refusal := w.refused(api.StateConflict, start("h2", store))
		if refusal.Details["store"] != "store_"+store || !strings.Contains(refusal.Message, "host_h1, which was removed") {
			t.Errorf("another host joins with store %s: %v %v", store, refusal, refusal.Details)
		}
	}
	again := newHost("h1")
	again.Id, again.Credential.Owner = "host_new", "host_new"
	w.refused(api.Conflict, again) // its credential has the id of the ended one
	again.Credential.Id = "cred_new"
	w.ok(again)
	w.reopen()
	w.refused(api.NotFound, dropHost("g1"))
}

// A host is not removed while it holds data of namespaces, whether they are in use or being deleted.
func TestRemoveHostWithNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("acme"), newHost("h1"), start("h1", "a"))
	w.ok(newNamespace("org_acme", "x"), place("x", "a"), newNamespace("org_acme", "y"), place("y", "a"), deletion("y"))
	wants := func(namespaces, deleting int64) {
		t.Helper()
		refusal := w.refused(api.StateConflict, dropHost("h1"))
		if refusal.Details["namespaces"] != namespaces || refusal.Details["deleting"] != deleting {
			t.Errorf("the refusal has %v, want %d and %d: %s", refusal.Details, namespaces, deleting, refusal.Message)
		}
	}
	wants(1, 1)
	w.ok(start("h1", "b")) // lost namespaces count, because the host may come back with their store
	wants(1, 1)
	w.ok(deletion("x"), removal("y"))
	wants(0, 1)
	w.ok(removal("x"), dropHost("h1"))
}
