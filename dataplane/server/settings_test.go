package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// PUT settings with an Idempotency-Key sets them on every shard once: a repeat changes nothing. A key that another
// request used on any shard is refused on all.
func TestPutSettingsOnceOnAllShards(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			every := func(when string, want state.UnknownModel) {
				t.Helper()
				for _, c := range n.shards().All() {
					equal(t, fmt.Sprintf("%s, shard %d", when, c.Shard()), c.State().Head().GetSettings().GetUnknownModel(), want)
				}
			}
			put := func(body, key string) answer {
				t.Helper()
				return n.send("PUT", "/api/v1/settings", n.admin, body, "Idempotency-Key: "+key)
			}
			first := put(`{"unknown_model":"hold"}`, "a")
			equal(t, "status", first.status, http.StatusOK)
			equal(t, "shards in the position", len(shardsIn(t, first.header.Get("Corvo-Index"))), shards)
			every("first", state.UnknownModel_UNKNOWN_MODEL_HOLD)
			n.do("PUT", "/api/v1/settings", `{}`, http.StatusOK, nil)
			every("without a key", state.UnknownModel_UNKNOWN_MODEL_CEILING)
			again := put(`{"unknown_model":"hold"}`, "a")
			equal(t, "status of the repeat", again.status, http.StatusOK)
			equal(t, "body of the repeat", string(again.body), string(first.body))
			every("repeat", state.UnknownModel_UNKNOWN_MODEL_CEILING)

			queue := onShard(shards-1, shards, 0)
			if a := n.send("POST", "/api/v1/enqueue", n.admin, fmt.Sprintf(`{"queue":%q}`, queue), "Idempotency-Key: b"); a.status != http.StatusCreated {
				t.Fatalf("%d %s", a.status, a.body)
			}
			other := put(`{"unknown_model":"hold"}`, "b")
			equal(t, "code of another request's key", other.problem(t).Code, api.IdempotencyMismatch)
			every("another request's key", state.UnknownModel_UNKNOWN_MODEL_CEILING)
		})
	}
}

// shardsIn returns the shards of a Corvo-Index.
func shardsIn(t *testing.T, text string) (shards []uint64) {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		t.Fatalf("position %q: %v", text, err)
	}
	for b = b[1:]; len(b) > 0; {
		shard, n := binary.Uvarint(b)
		_, m := binary.Uvarint(b[n:])
		shards, b = append(shards, shard), b[n+m:]
	}
	return shards
}
