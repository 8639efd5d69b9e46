package server_test

import (
	"testing"

	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// The data of keys that were revoked at other nodes is removed as new keys come; the data of existing keys
// stays.
func TestRevokedKeysAreForgotten(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	asks := func(key string) {
		t.Helper()
		if a := n.ask("GET", "/api/v1/queues", key, ""); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	asks(n.admin)
	used := n.server.LastUsedNs(keyID(n.admin))
	for range 3 * server.KeyUsesKept {
		key := n.key(tenancy.Key{Roles: []tenancy.Role{"readonly"}})
		asks(key)
		n.revoke(key) // by an op, as another node would
	}
	if all := n.server.RememberedKeys(); all > server.KeyUsesKept+2 {
		t.Errorf("%d keys are remembered, of which one is there", all)
	}
	if got := n.server.LastUsedNs(keyID(n.admin)); used == 0 || got != used {
		t.Errorf("the key that is there was used at %d, is said to have been at %d", used, got)
	}
}
