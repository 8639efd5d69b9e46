package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// TestANodeWithPartOfItsDataDoesNotStart checks that a node without part of its data refuses to start and
// names the missing file or directory. After that is back, the node serves all its data.
func TestANodeWithPartOfItsDataDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--raft-bind", "off", "--shards", "2", "--data-dir", dir}
	p := startServer(t, args...)
	key := adminKey(t, dir)
	for _, queue := range queuesOn("q") {
		if _, err := newClient(t, p.endpoint, key).Enqueue(t.Context(), api.EnqueueRequest{Queue: queue}); err != nil {
			t.Fatal(err)
		}
	}
	p.Kill(t)
	aside := filepath.Join(t.TempDir(), "aside")
	for _, path := range []string{"ns", "ns/default", "ns/default/shards.json", "ns/default/1", "ns/default/0", "ns/default/1/shard.json", "ns/default/1/raft", "ns/default/1/state", "opened"} {
		if err := os.Rename(filepath.Join(dir, path), aside); err != nil {
			t.Fatal(err)
		}
		refused(t, args, "UNHEALTHY", filepath.Join(dir, path), "is missing")
		refused(t, []string{"--raft-bind", "off", "--data-dir", dir}, filepath.Join(dir, path))
		if err := os.RemoveAll(filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, filepath.Join(dir, path)); err != nil {
			t.Fatal(err)
		}
	}
	p = startServer(t, args...)
	for _, queue := range queuesOn("q") {
		if got, err := newClient(t, p.endpoint, key).Queue(t.Context(), queue, client.Read{}); err != nil || got.Pending != 1 {
			t.Errorf("%s: %+v, %v", queue, got, err)
		}
	}
}
