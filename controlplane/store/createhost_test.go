package store

import "testing"

// A host has the zone of its registration, or else is its own. A gateway has none.
func TestZoneOfAHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	given := newHost("h1")
	given.Zone = "rack-1"
	w.ok(given, newHost("h2"), newGateway("g1"))
	w.reopen()
	for name, want := range map[string]string{"h1": "rack-1", "h2": "host_h2", "g1": ""} {
		if h := w.host(name); h.Zone != want {
			t.Errorf("the zone of %s is %q, want %q", name, h.Zone, want)
		}
	}
	same := newHost("h1")
	same.Credential.Id = "cred_new"
	w.ok(dropHost("h1"), same)
	if h := w.host("h1"); h.Zone != h.ID {
		t.Errorf("a new host has the zone %q of a removed one", h.Zone)
	}
}
