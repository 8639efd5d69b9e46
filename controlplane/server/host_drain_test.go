package server

import (
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/tenancy/keyring"
)

// TestDrainAHost drains a host. The operator sees who drains the host and how many namespaces are left on it,
// and can remove the host once none is left.
func TestDrainAHost(t *testing.T) {
	t.Parallel()
	f, admin := start(t)
	id, credential := f.host("one", keyring.Host)
	f.host("g", keyring.Gateway)
	ns := f.namespace("acme", "orders")
	f.join(credential, "http://one.test")
	f.settle(ns, id)
	ops := f.cloud(f.operator)
	drains := func() (*api.HostDrain, int) {
		t.Helper()
		h, err := ops.Host(t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		return h.Status.Drain, h.Status.Namespaces
	}
	if d, _ := drains(); d != nil {
		t.Errorf("a host drains by itself: %+v", d)
	}
	for _, path := range []string{"/drain", "/undrain"} {
		if a := f.send("POST", cloud+"/hosts/one"+path, admin, ""); a.problem(t).Code != api.Forbidden {
			t.Errorf("%s by a tenant: %d %s", path, a.status, a.body)
		}
		if a := f.send("POST", cloud+"/hosts/nobody"+path, f.operator, ""); a.problem(t).Code != api.NotFound {
			t.Errorf("%s of an unknown host: %d %s", path, a.status, a.body)
		}
		if a := f.send("POST", cloud+"/hosts/one"+path, f.operator, "", `If-Match: "99"`); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("%s of another version: %d %s", path, a.status, a.body)
		}
		if a := f.send("POST", cloud+"/hosts/one"+path, f.operator, `{"wait":true}`); a.problem(t).Code != api.ValidationError {
			t.Errorf("%s with an unknown field: %d %s", path, a.status, a.body)
		}
	}
	if a := f.send("POST", cloud+"/hosts/g/drain", f.operator, ""); a.problem(t).Code != api.StateConflict {
		t.Errorf("drain of a gateway: %d %s", a.status, a.body)
	}
	for range 2 { // the second one changes nothing
		if status, err := ops.DrainHost(t.Context(), "one"); err != nil || status != api.HostDraining {
			t.Fatalf("drain: %q, %v", status, err)
		}
	}
	if d, left := drains(); d == nil || d.By == "" || left != 1 {
		t.Errorf("the host drains %+v, with %d namespaces left", d, left)
	}
	rows, err := ops.OperatorAudit(t.Context(), "-")
	if err != nil {
		t.Fatal(err)
	}
	if last := lastChange(rows); last.Action != "drain-host" || last.Target != id {
		t.Errorf("the audit log ends with %+v", last)
	}
	if err := ops.UndrainHost(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if d, _ := drains(); d != nil {
		t.Errorf("an undrained host drains: %+v", d)
	}

	empty, _ := f.host("two", keyring.Host)
	if status, err := ops.DrainHost(t.Context(), empty); err != nil || status != api.HostDrained {
		t.Errorf("drain of an empty host: %q, %v", status, err)
	}
	if err := ops.RemoveHost(t.Context(), empty, 0); err != nil {
		t.Errorf("remove a drained host: %v", err)
	}
}
