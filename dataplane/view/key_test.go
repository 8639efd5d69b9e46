package view

import (
	"encoding/hex"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestRowsOfKeysAndRoles checks that the rows of API keys, custom roles and the namespace follow the store,
// even if nothing but a key changes.
func TestRowsOfKeysAndRoles(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	const all = "SELECT id, key_hash, name, namespace, role, queue_scope, enabled, expires_at, last_used_at FROM api_keys ORDER BY id"
	h.says(all, "")
	hash := []byte{0xab, 1}
	key := &state.Key{Id: "k1", Name: "worker", Roles: []string{"worker", "readers"}, QueueScope: []string{"mail*"}, Hash: hash, Enabled: true,
		PreviousHash: []byte("old"), ExpiresNs: 5, CreatedNs: 1}
	h.commit(func(tx *state.Tx) {
		must(t, tx.PutResource(&state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_ROLE, Name: "readers", Id: otherID(70), Version: 1, Shards: 1,
			CreatedNs: 7, Role: &state.Role{Permissions: []string{"job.read"}}}))
		must(t, tx.PutKey(key))
		must(t, tx.PutKey(&state.Key{Id: "k2", Name: "admin", Roles: []string{"admin"}, Hash: []byte{2}, CreatedNs: 2}))
	})
	namespace := namespaceOf(h.store.Head())
	h.says(all, "k1|ab01|worker|"+namespace+`|worker|["mail*"]|1|1970-01-01T00:00:00.000000005Z|`+"\nk2|02|admin|"+namespace+"|admin||0||")
	h.says("SELECT * FROM auth_key_roles ORDER BY 1 DESC, 2", "ab01|readers|1970-01-01T00:00:00.000000001Z\nab01|worker|1970-01-01T00:00:00.000000001Z\n02|admin|1970-01-01T00:00:00.000000002Z")
	h.says("SELECT * FROM auth_roles", `readers|["job.read"]|1970-01-01T00:00:00.000000007Z|`)
	h.says("SELECT * FROM namespaces", namespace+"|")
	h.same()

	key.Name, key.Hash = "renamed", []byte{3}
	h.commit(func(tx *state.Tx) {
		must(t, tx.PutKey(key))
		must(t, tx.DeleteKey("k2"))
	})
	h.view.Notify() // as the cell does when keys change
	h.says("SELECT name, key_hash FROM api_keys", "renamed|03")
	h.same()
	h.reopen(nil)
	h.says("SELECT name FROM api_keys", "renamed")
	if found := h.shell("SELECT count(*) FROM api_key WHERE hash LIKE '%" + hex.EncodeToString([]byte("old")) + "%'"); found != "0\n" {
		t.Error("the hash of an earlier secret is shown")
	}
}

// TestRateLimitWindowRows checks that the table has a row for each slice of a rate limit's window in which
// the queue released jobs.
func TestRateLimitWindowRows(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue("free")
		q := tx.EnsureQueue("q")
		q.RateLimit, q.RateWindowMs = 10, 64_000
		for _, at := range []int64{1e9, 1e9 + 1, 3e9} {
			q.CountRate(at)
		}
	})
	h.enqueue("q", 1) // so that the feed has an event of the queue
	h.says("SELECT * FROM rate_limit_window", "q|1970-01-01T00:00:01.000000000Z|2\nq|1970-01-01T00:00:03.000000000Z|1")
	h.same()
	q := &job.RateWindow{}
	for range q.Slices() {
		t.Error("an empty window has a slice")
	}
}
