package server_test

import (
	"testing"

	"github.com/corvo/corvo/api"
)

func TestAdmin(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	for _, q := range queueOn(2) {
		n.enqueue(q)
	}
	n.do("POST", "/api/v1/admin/snapshot", "", 200, nil)
	for _, c := range n.shards().All() {
		s, err := c.Status()
		if err != nil || s.Engine.Snapshot == 0 || s.Engine.Snapshot != s.Engine.Applied.Index {
			t.Errorf("shard %d is at %d, its snapshot at %d: %v", c.Shard(), s.Engine.Applied.Index, s.Engine.Snapshot, err)
		}
	}
	for _, path := range []string{"/api/v1/admin/rebuild-view", "/api/v1/admin/rebuild-sqlite"} {
		n.do("POST", path, "", 200, nil)
		if ids := n.pages("asc", 10, 2, nil); len(ids) != 2 {
			t.Errorf("after %s there are %v", path, ids)
		}
	}
	var verified api.Verified
	n.do("POST", "/api/v1/admin/verify", "", 200, &verified)
	if len(verified.Shards) != 2 {
		t.Fatalf("verified %+v, want two shards", verified)
	}
	second := verified.Shards[1]
	equal(t, "the second shard", second.Shard, 1)
	present(t, "files", second.Files)
	present(t, "applied_index", second.AppliedIndex)
	var r api.Runtime
	n.do("GET", "/api/v1/debug/runtime", "", 200, &r)
	present(t, "goroutines", r.Goroutines)
	present(t, "gomaxprocs", r.GOMAXPROCS)
	present(t, "heap_inuse_bytes", r.HeapInuseBytes)
	present(t, "stack_inuse_bytes", r.StackInuseBytes)
	present(t, "cpu_user_ns", r.CPUUserNs)
}
