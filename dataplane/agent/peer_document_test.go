package agent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/fleet/fleettest"
	"github.com/corvo/corvo/engine/transport"
)

// send hands a document to running hosts as the stream does, so that their catalogues have it.
func (c *crew) send(d fleet.Doc, stores ...string) {
	c.t.Helper()
	for _, store := range stores {
		h := c.hosts[store]
		c.must(h.persist(fleet.Message{JWKS: c.plane.Trusted().JWKS()}))
		c.must(h.persist(c.plane.Sign(d)))
		c.must(h.applyDoc(d))
	}
}

// A host with an old document refuses a leader that the document does not name, asks it for its document, and then
// accepts it, without the control plane. The document is kept, and the stream still starts before it.
func TestARefusedMemberShowsItsDocument(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "b", "c")
	c.plane.SetDown(true)
	old := c.doc(1, "join:b", "join:c")
	c.send(old, "b")
	c.reports("b", fleet.Opened, 1)
	c.doc(1) // a document of another namespace that b has not got
	newer := c.doc(2, "found:a", "join:b", "join:c")
	c.send(newer, "a", "c")
	c.settled(2, "a", "b", "c")
	c.stop("b")
	c.start("b")
	if all := c.hosts["b"].catalogue.Messages("ns_a"); len(all) != 1 || all[0].Number != newer.Number {
		t.Errorf("after a restart b has the documents %+v, not %d", all, newer.Number)
	}
	if got := c.hosts["b"].catalogue.Number(); got != old.Number {
		t.Errorf("the stream of b begins after document %d, not %d", got, old.Number)
	}
}

// A host adopts a document only if the control plane has signed it, if it is newer, and if it wants this host to serve
// the namespace. It shows its own document only to stores that the document names.
func TestDocumentsOfOtherHostsAreChecked(t *testing.T) {
	t.Parallel()
	c := newCrew(t, "a", "x")
	kept := c.doc(5, "join:a")
	c.send(kept, "a")
	foreign := fleettest.New(t)
	good := func() fleet.Doc { return c.doc(6, "join:a", "join:x") }
	elsewhere, leave, absent, old := c.doc(6, "join:x"), good(), good(), c.doc(4, "join:a", "join:x")
	leave.Desired, absent.Desired = fleet.Leave, fleet.Absent
	other := good()
	other.Namespace = "ns_b"
	changed := c.plane.Sign(good())
	changed.Doc = []byte(strings.Replace(string(changed.Doc), `"generation":6`, `"generation":7`, 1))
	host := c.hosts["a"]
	for name, m := range map[string]fleet.Message{
		"signed by another control plane": foreign.Sign(good()), "changed after it was signed": changed, "on other hosts": c.plane.Sign(elsewhere),
		"wants the other host to leave": c.plane.Sign(leave), "wants it deleted": c.plane.Sign(absent), "of an older generation": c.plane.Sign(old),
		"of another namespace": c.plane.Sign(other), "empty": {},
	} {
		c.hosts["x"].transport.Handle(callDocuments, func(context.Context, transport.Peer, []byte) ([]byte, error) {
			return json.Marshal([]signedDocument{{m.Number, m.Doc, m.Signature}})
		})
		host.transport.Learn("x", c.hosts["x"].address)
		if err := host.adoptFrom(ask{"ns_a", "x"}); err == nil {
			t.Errorf("%s: adopted", name)
		}
		if all := host.catalogue.Messages("ns_a"); len(all) != 1 || all[0].Number != kept.Number {
			t.Fatalf("%s: the host has the documents %+v", name, all)
		}
		if all := host.catalogue.Messages("ns_b"); all != nil {
			t.Fatalf("%s: the host has the documents %+v of another namespace", name, all)
		}
	}
	c.hosts["x"].transport.Learn("a", host.address)
	_, err := c.hosts["x"].transport.Call(t.Context(), transport.Peer{ID: "a"}, callDocuments, []byte("ns_a"))
	if api.CodeOf(err) != api.NotFound {
		t.Errorf("a store that the document does not name gets %v", err)
	}
}
