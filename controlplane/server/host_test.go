package server

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A removed host or gateway is refused at once: its service token, its stream of documents and its credential.
func TestARemovedMemberIsRefused(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	for name, kind := range map[string]keyring.Kind{"one": keyring.Host, "g": keyring.Gateway} {
		id, credential := f.host(name, kind)
		address := ""
		if kind == keyring.Host {
			address = "http://one.test"
		}
		service := f.join(credential, address)
		stream := f.follow(t, service, 0)
		stream.docs()
		if a := f.send("DELETE", cloud+"/hosts/"+name, f.operator, "", `If-Match: "99"`); a.problem(t).Code != api.PreconditionFailed {
			t.Errorf("a removal of another version: %d %s", a.status, a.body)
		}
		if a := f.send("DELETE", cloud+"/hosts/"+name, f.operator, ""); a.status != 200 || string(a.body) != `{"status":"deleted"}`+"\n" {
			t.Fatalf("the removal: %d %s", a.status, a.body)
		}
		for path, method := range map[string]string{wire.ReportPath: "POST", wire.DocsPath: "GET", wire.UsagePath: "GET"} {
			if a := f.send(method, path, service, "{}"); a.problem(t).Code != api.Unauthorized {
				t.Errorf("%s of a removed %s: %d %s", path, name, a.status, a.body)
			}
		}
		if a := f.send("POST", wire.JoinPath, credential, "{}"); a.problem(t).Code != api.Unauthorized {
			t.Errorf("a removed %s joins: %d %s", name, a.status, a.body)
		}
		for ok := true; ok; {
			_, ok = stream.next()
		}
		for _, path := range []string{"/hosts/" + name, "/hosts/" + id} {
			for _, method := range []string{"GET", "DELETE"} {
				if a := f.send(method, cloud+path, f.operator, ""); a.problem(t).Code != api.NotFound {
					t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
				}
			}
		}
		rows, err := f.cloud(f.operator).OperatorAudit(t.Context(), "-")
		if err != nil {
			t.Fatal(err)
		}
		if last := lastChange(rows); last.Action != "remove-host" || last.Target != id {
			t.Errorf("the audit log ends with %+v", last)
		}
		f.host(name, kind) // its name is free
	}
}

// A host is registered in a zone, and a gateway in none.
func TestZoneOfAHost(t *testing.T) {
	t.Parallel()
	f, _ := start(t)
	ops := f.cloud(f.operator)
	made, err := ops.CreateHost(t.Context(), api.CreateHostRequest{Name: "one", Zone: "rack-1"})
	if err != nil || made.Spec.Zone != "rack-1" {
		t.Errorf("the answer has zone %q, %v", made.Spec.Zone, err)
	}
	if h, err := ops.Host(t.Context(), "one"); err != nil || h.Spec.Zone != "rack-1" {
		t.Errorf("the host has zone %q, %v", h.Spec.Zone, err)
	}
	if made, err = ops.CreateHost(t.Context(), api.CreateHostRequest{Name: "two"}); err != nil || made.Spec.Zone != made.ID {
		t.Errorf("a host without a zone has %q, %v", made.Spec.Zone, err)
	}
	if a := f.send("POST", cloud+"/hosts", f.operator, `{"name":"g","kind":"gateway","zone":"rack-1"}`); a.problem(t).Code != api.ValidationError {
		t.Errorf("a gateway in a zone: %d %s", a.status, a.body)
	}
	if a := f.send("POST", cloud+"/hosts", f.operator, `{"name":"three","zone":"`+strings.Repeat("z", store.MaxZone+1)+`"}`); a.problem(t).Code != api.ValidationError {
		t.Errorf("a zone that is too long: %d %s", a.status, a.body)
	}
}

// lastChange returns the newest row of a change.
func lastChange(rows []api.AuditRow) (last api.AuditRow) {
	for _, row := range rows {
		if row.Refused == "" {
			last = row
		}
	}
	return last
}
