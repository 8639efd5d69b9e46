package store

import (
	"testing"
	"time"

	"github.com/corvo/corvo/api"
)

func drain(name string) *DrainHost     { return &DrainHost{Meta: by("op"), Id: "host_" + name} }
func undrain(name string) *UndrainHost { return &UndrainHost{Meta: by("op"), Id: "host_" + name} }

// A host drains from the first op until it is undrained or removed. Each change has a version.
func TestDrainHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newHost("h1"), newGateway("g1"))
	w.refused(api.NotFound, drain("nobody"))
	w.refused(api.NotFound, undrain("nobody"))
	w.refused(api.StateConflict, drain("g1"))
	w.ok(undrain("g1")) // it does not drain
	w.ok(drain("h1"))
	since, version := w.clockNs, w.host("h1").Version
	if version != 2 {
		t.Errorf("the version is %d, want 2", version)
	}
	w.pass(time.Minute)
	again := drain("h1")
	again.Meta.Principal = "another"
	w.ok(again) // the first drain stays
	w.reopen()
	if h := w.host("h1"); !h.Draining || h.DrainingBy != "op" || h.DrainingNs != since || h.Version != version {
		t.Errorf("the host is %+v, want one that op drains since %d, at version %d", h, since, version)
	}
	stale := undrain("h1")
	stale.ExpectVersion = version - 1
	w.refused(api.PreconditionFailed, stale)
	stale.ExpectVersion = version
	w.ok(stale)
	if h := w.host("h1"); h.Draining || h.DrainingBy != "" || h.DrainingNs != 0 || h.Version != version+1 {
		t.Errorf("the host still drains: %+v", h)
	}
	expected := drain("h1")
	expected.ExpectVersion = version
	w.refused(api.PreconditionFailed, expected)
	w.ok(drain("h1"), dropHost("h1"))
	same := newHost("h1")
	same.Credential.Id = "cred_new"
	w.ok(same)
	if h := w.host("h1"); h.Draining {
		t.Error("a new host drains because a removed one did")
	}
}
