package dataplane_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy/keyring"
)

// incarnated returns the document of a namespace that is placed on the host.
func (c *cloud) incarnated(generation int64, role string, shards []entry.Incarnation, key fleet.Key) fleet.Doc {
	d := c.placed("ns_a", generation, key)
	d.Members[0].Role, d.Incarnations, d.Ready = role, shards, role == fleet.Join
	return d
}

// A host founds a namespace with the incarnations of its document and reports them, then and after a restart.
func TestHostFoundsWithTheIncarnationsOfItsDocument(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	text, key := c.key(keyring.Namespace)
	shards := []entry.Incarnation{{1}, {2}}
	for i, role := range []string{fleet.Found, fleet.Found, fleet.Join, fleet.Join} {
		generation := int64(i + 1)
		c.plane.Put(c.incarnated(generation, role, shards, key))
		c.open()
		if at := c.reported("ns_a", fleet.Opened, generation); !slices.Equal(at.Incarnations, shards) {
			t.Errorf("the report has the incarnations %v, want %v", at.Incarnations, shards)
		}
		c.enqueue(text)
		c.close()
	}
}

// An empty disk under a known credential founds nothing once the founding is recorded, also if the document
// does not name the store. It founds nothing either when the control plane, put back to an older state, says
// again that the host may.
func TestAnEmptyDiskUnderAKnownCredentialFoundsNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	_, key := c.key(keyring.Namespace)
	shards := []entry.Incarnation{{1}}
	for i, role := range []string{fleet.Join, fleet.Found} {
		generation := int64(i + 1)
		c.plane.Put(c.incarnated(generation, role, shards, key))
		c.open()
		if at := c.reported("ns_a", fleet.Failed, generation); !strings.Contains(at.Error, "an empty one is not founded in its place") || at.Incarnations != nil {
			t.Errorf("with the role %s: %+v", role, at)
		}
		c.close()
		if left, err := os.ReadDir(filepath.Join(c.dir, "ns")); err == nil && len(left) > 0 {
			t.Errorf("with the role %s the empty disk has %v", role, left)
		}
	}
}

// Of two hosts that were told to found a namespace, one by an old document, only one has the incarnations that
// the control plane has recorded. The other one refuses the namespace, also if it has it open, and its own
// history stays as it is.
func TestAHostWithAnotherHistoryRefusesTheNamespace(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	text, key := c.key(keyring.Namespace)
	old, recorded := []entry.Incarnation{{1}}, []entry.Incarnation{{2}}
	c.plane.Put(c.incarnated(1, fleet.Found, old, key))
	c.open()
	c.reported("ns_a", fleet.Opened, 1)
	id := c.enqueue(text)
	for i, role := range []string{fleet.Join, fleet.Found} {
		generation := int64(i + 1) // the first of these documents has the generation of the one before
		c.plane.Put(c.incarnated(generation, role, recorded, key))
		at := c.reported("ns_a", fleet.Failed, generation)
		if !strings.Contains(at.Error, old[0].String()) || !strings.Contains(at.Error, recorded[0].String()) {
			t.Errorf("with the role %s the reason is %q", role, at.Error)
		}
		if a := c.send("GET", "/api/v1/jobs/"+id, text, ""); a.status != 503 {
			t.Errorf("a job of it: %d %s", a.status, a.body)
		}
		c.close()
		c.open()
	}
	c.plane.Put(c.incarnated(3, fleet.Join, old, key))
	c.reported("ns_a", fleet.Opened, 3)
	c.want(200, "GET", "/api/v1/jobs/"+id, text, "")
}

// A host opens the namespaces of an earlier version with their own incarnations, and reports these. It keeps to
// them once its documents have them.
func TestHostReportsTheIncarnationsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	text, key := c.key(keyring.Namespace)
	c.plane.PutText(earlier(t, 1, "ns_a", c.store, false, key))
	c.open()
	own := c.reported("ns_a", fleet.Opened, 1).Incarnations
	id := c.enqueue(text)
	if len(own) != 1 || own[0] == (entry.Incarnation{}) {
		t.Fatalf("the report has the incarnations %v", own)
	}
	for i, shards := range [][]entry.Incarnation{nil, own} {
		generation := int64(i + 2)
		c.plane.Put(c.incarnated(generation, fleet.Join, shards, key))
		c.close()
		c.open()
		if at := c.reported("ns_a", fleet.Opened, generation); !slices.Equal(at.Incarnations, own) {
			t.Errorf("the report has the incarnations %v, want %v", at.Incarnations, own)
		}
		c.want(200, "GET", "/api/v1/jobs/"+id, text, "")
	}
}

// A host that is told to leave a namespace keeps the copy whose groups serve it, and deletes any other.
func TestHostLeavesANamespace(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	text, key := c.key(keyring.Namespace)
	own := []entry.Incarnation{{1}}
	leave := func(generation int64, elsewhere ...entry.Incarnation) fleet.Doc {
		d := c.incarnated(generation, fleet.Join, elsewhere, fleet.Key{})
		d.Desired, d.Keys = fleet.Leave, nil
		d.Members = []fleet.GroupMember{{Store: "store_2", Host: "host_2", Role: fleet.Join}}
		return d
	}
	c.plane.Put(c.incarnated(1, fleet.Found, own, key))
	c.open()
	c.reported("ns_a", fleet.Opened, 1)
	c.enqueue(text)
	c.plane.PutTo("host_1", leave(2, own...))
	if at := c.reported("ns_a", fleet.Failed, 2); !strings.Contains(at.Error, own[0].String()) {
		t.Errorf("the reason is %q", at.Error)
	}
	if a := c.send("GET", "/api/v1/queues", text, ""); a.status == 200 {
		t.Error("a namespace that the host leaves is open")
	}
	c.plane.PutTo("host_1", leave(3, entry.Incarnation{2}))
	c.reported("ns_a", fleet.Gone, 3)
	if left, err := os.ReadDir(filepath.Join(c.dir, "ns")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	c.close()
	c.open()
	c.reported("ns_a", fleet.Gone, 3)
}
