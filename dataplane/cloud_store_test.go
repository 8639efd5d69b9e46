package dataplane_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/dataplane/host"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/tenancy/keyring"
)

// A host opens the namespaces of an earlier version, whose cells have the name that --node-id had given them,
// under the id of its store.
func TestHostAdoptsTheCellsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h, err := host.Open(host.Config{DataDir: c.dir, NodeID: "host-1", Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = errors.Join(h.Add(t.Context(), "ns_a", host.Spec{}), h.Ready(t.Context(), "ns_a"), h.Close(t.Context()))
	}
	if err != nil {
		t.Fatal(err)
	}
	text, key := c.key(keyring.Namespace)
	was := placed("ns_a", 1, key)
	was.Ready = true
	c.plane.Put(was)
	for range 2 {
		c.open()
		c.reported("ns_a", fleet.Opened, 1)
		c.enqueue(text)
		c.close()
	}
	node, err := engine.NodeOf(filepath.Join(c.dir, "ns", "ns_a", "0", "raft"))
	if err != nil || !host.IsStore(node) {
		t.Errorf("the cell is of node %q (%v)", node, err)
	}
}
