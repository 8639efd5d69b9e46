package dataplane_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A host refuses and reports a namespace whose data is missing in whole or in part. It creates no empty
// namespace in its place, and serves the others. Once the data is back, the host opens it.
func TestHostFoundsNothingInPlaceOfLostData(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"all of it": ".", "a shard": "0", "the record": "shards.json", "the log": "0/raft"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			c.open()
			text, key := c.key(keyring.Namespace)
			other, otherKey := c.key(keyring.Namespace)
			c.plane.Put(c.placed("ns_a", 1, key))
			c.plane.Put(c.placed("ns_b", 1, otherKey))
			c.reported("ns_a", fleet.Opened, 1)
			c.reported("ns_b", fleet.Opened, 1)
			id := c.enqueue(text)
			c.close()
			lost, aside := filepath.Join(c.dir, "ns", "ns_a", path), filepath.Join(t.TempDir(), "aside")
			if err := os.Rename(lost, aside); err != nil {
				t.Fatal(err)
			}
			c.open()
			if at := c.reported("ns_a", fleet.Failed, 1); !strings.Contains(at.Error, filepath.Join(c.dir, "ns", "ns_a")) || !strings.Contains(at.Error, "is missing") {
				t.Errorf("the reason is %q", at.Error)
			}
			if a := c.send("GET", "/api/v1/jobs/"+id, text, ""); a.status != 503 {
				t.Errorf("a job of it: %d %s", a.status, a.body)
			}
			c.enqueue(other)
			if err := os.MkdirAll(filepath.Dir(lost), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(lost); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(aside, lost); err != nil {
				t.Fatal(err)
			}
			c.reported("ns_a", fleet.Opened, 1)
			c.want(200, "GET", "/api/v1/jobs/"+id, text, "")
		})
	}
}

// A host that has lost its disk, its catalogue included, creates no namespace that the control plane knows to
// have been open there.
func TestHostThatLostItsDiskFoundsNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	_, key := c.key(keyring.Namespace)
	_, newKey := c.key(keyring.Namespace)
	was := c.placed("ns_a", 1, key)
	was.Members[0].Role, was.Ready = fleet.Join, true
	c.plane.Put(was)
	c.plane.Put(c.placed("ns_new", 1, newKey))
	c.open()
	c.reported("ns_new", fleet.Opened, 1)
	if at := c.reported("ns_a", fleet.Failed, 1); !strings.Contains(at.Error, "has been open on this host") {
		t.Errorf("the reason is %q", at.Error)
	}
	c.close()
	was.Members[0].Role, was.Ready = fleet.Found, false // as a control plane that was put back to an older state says
	c.plane.Put(was)
	c.open()
	c.reported("ns_a", fleet.Failed, 1)
	c.plane.Put(c.absent("ns_a", 2)) // and it can be deleted
	c.reported("ns_a", fleet.Gone, 2)
}
