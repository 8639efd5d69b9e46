package host

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

func openStore(t *testing.T, dir string) string {
	t.Helper()
	id, err := OpenStore(dir, rand.Reader, 1_700_000_000_000e6)
	must(t, err)
	return id
}

func TestAStoreKeepsItsID(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	id := openStore(t, dir)
	if !IsStore(id) || openStore(t, dir) != id || openStore(t, t.TempDir()) == id {
		t.Errorf("the id is %q", id)
	}
}

func TestADamagedStoreFileIsRefused(t *testing.T) {
	t.Parallel()
	id := openStore(t, t.TempDir())
	for name, text := range map[string]string{
		"empty":               "",
		"truncated":           `{"format":1,"store":"` + id,
		"without an id":       `{"format":1}`,
		"with another id":     `{"format":1,"store":"host-1"}`,
		"of another format":   `{"format":2,"store":"` + id + `"}`,
		"with another field":  `{"format":1,"store":"` + id + `","host":"a"}`,
		"with a second value": `{"format":1,"store":"` + id + `"}{}`,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, StoreFile)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := OpenStore(dir, rand.Reader, 1)
		if api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadFile(path); string(left) != text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

// shardOfBefore is a shard as it was before its directory was closed.
type shardOfBefore struct {
	job     job.ID
	history entry.Incarnation
}

// closedStore returns a directory with the closed namespace a of two shards, whose cells have the name of the
// node.
func closedStore(t *testing.T, node string) (dir string, shards []shardOfBefore) {
	t.Helper()
	dir = t.TempDir()
	h := openHost(t, Config{DataDir: dir, NodeID: node})
	for _, c := range ready(t, h, "a", Spec{Shards: 2}) {
		id, err := enqueue(t.Context(), c)
		must(t, err)
		shards = append(shards, shardOfBefore{id, c.Engine().Applied().Incarnation})
	}
	must(t, h.Close(t.Context()))
	return dir, shards
}

// A host of the cloud renames cells of a node id to its store, once, and they keep their jobs and histories.
func TestCellsFromBeforeAreRenamed(t *testing.T) {
	t.Parallel()
	dir, was := closedStore(t, "host-1")
	id := openStore(t, dir)
	for range 2 {
		h := openHost(t, Config{DataDir: dir, NodeID: id, Adopt: true})
		for shard, c := range ready(t, h, tenancy.NamespaceID("a"), Spec{Opened: true}) {
			if got := c.Engine().Applied().Incarnation; got != was[shard].history {
				t.Errorf("shard %d has history %v, want %v", shard, got, was[shard].history)
			}
			if members := c.Engine().Members(); len(members) != 1 || members[0].ID != id {
				t.Errorf("the members of shard %d are %+v", shard, members)
			}
			if j, err := c.State().Job(was[shard].job); err != nil || j == nil {
				t.Errorf("the job of shard %d: %v, %v", shard, j, err)
			}
		}
		must(t, h.Close(t.Context()))
	}
	node, err := engine.NodeOf(filepath.Join(dir, "ns", "a", "1", "raft"))
	if err != nil || node != id {
		t.Errorf("group.json is of node %q (%v)", node, err)
	}
}

// The cells of one store are never opened as those of another, whether the file names another or is gone.
func TestCellsOfAnotherStoreAreRefused(t *testing.T) {
	t.Parallel()
	id := openStore(t, t.TempDir())
	dir, _ := closedStore(t, id)
	_, err := OpenStore(dir, rand.Reader, 1)
	if api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), filepath.Join(dir, StoreFile)) {
		t.Errorf("a directory with cells and without its id: %v", err)
	}
	h := openHost(t, Config{DataDir: dir, NodeID: openStore(t, t.TempDir()), Adopt: true})
	if err := h.Add(t.Context(), "a", Spec{}); api.CodeOf(err) != api.Conflict {
		t.Errorf("the cells of another store: %v", err)
	}
}
