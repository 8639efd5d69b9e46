package reconcile

import (
	"context"
	"log/slog"
	"testing"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// The leader records the claims of shards and gateways that are new: the first ones at once, and the later ones together
// after a minute. Only the leader of a shard makes claims.
func TestClaimsAreRecorded(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	populate(t, s)
	meta := &store.Meta{Principal: "test"}
	propose(t, s, &store.PlaceNamespace{Meta: meta, Id: "ns_1", Generation: 1, Stores: []string{storeID}})
	propose(t, s, &store.FoundNamespace{Meta: meta, Id: "ns_1", Generation: generation(t, s), Incarnations: bytesOf(minted)})
	propose(t, s, &store.CreateHost{Meta: meta, Id: "gw_1", Name: "g1", Kind: string(keyring.Gateway), Region: "eu", Credential: &store.Credential{
		Id: "c2", Kind: string(keyring.Gateway), Owner: "gw_1", Hash: make([]byte, 32),
	}})
	propose(t, s, &store.JoinHost{Meta: meta, Id: "gw_1", Version: "v1"})
	now, observations := time.Now(), NewObservations(time.Now, HostGrace)
	r := New(Config{Store: s, Observations: observations, Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
	began := time.Now()
	report := func(role string, until time.Duration) {
		cell := opened(t, s, minted)
		cell.Cells[0].Groups[0].Role, cell.Cells[0].Groups[0].Usage = role, &billing.Claim{UntilNs: began.Add(until).UnixNano()}
		observeFull(t, observations, leading(t, s), "host_1", cell)
	}
	want := func(until time.Duration) {
		t.Helper()
		r.recordClaims(t.Context(), leading(t, s))
		c, err := s.Completeness(t.Context(), store.UsageQuery{Org: "org_1"}, time.Now().Add(time.Hour))
		if got := time.Unix(0, c.UntilNs).Sub(began); err != nil || got != until {
			t.Errorf("the usage is complete until %s, %v, want %s", got, err, until)
		}
	}
	r.recordClaims(t.Context(), leading(t, s)) // nothing yet
	observations.ObserveGateway("gw_1", billing.Claim{UntilNs: began.Add(3).UnixNano()})
	report(wire.Leading, 1)
	want(1)
	report(wire.Leading, 2)
	want(1) // it is not due
	now = now.Add(recordEvery)
	want(2)
	report(wire.Following, 5)
	now = now.Add(recordEvery)
	want(2)
	report(wire.Leading, 5)
	now = now.Add(recordEvery)
	want(3) // of the gateway
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	observations.ObserveGateway("gw_1", billing.Claim{UntilNs: began.Add(4).UnixNano()})
	now = now.Add(recordEvery)
	r.recordClaims(ended, leading(t, s)) // fails
	now = now.Add(recordEvery)
	want(4)
}
