package op_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// begun is one attempt that a provider has had.
type begun struct {
	ns     int64
	tokens uint64 // it has reported since
}

// ledger records the traffic of a provider in the plainest way.
type ledger struct {
	requests []int64 // when
	tokens   []begun
}

// lately returns the requests and tokens of the last minute.
func (l *ledger) lately(nowNs int64) (requests int, tokens uint64) {
	since := nowNs - int64(time.Minute)
	for _, ns := range l.requests {
		if ns > since {
			requests++
		}
	}
	for _, b := range l.tokens {
		if b.ns > since {
			tokens += b.tokens
		}
	}
	return requests, tokens
}

// In any order of fetches, ends, clocks and openings, a provider never gets more requests in a minute than its
// limit, nor an attempt while its tokens, used and reserved, are at their limit. Jobs without a provider are
// always fetched, and in the end every job is.
func TestProviderLimitsAreNeverPassed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t)
			limit, tokenLimit := 3+r.IntN(8), uint64(500+r.IntN(2000))
			w.apply(w.putProvider("p", &state.Provider{Requests: uint64(limit), OutputTokens: tokenLimit}))
			h := &providerHistory{world: w, r: r, limit: limit, tokens: tokenLimit}
			for range 200 {
				h.step()
			}
			h.finish()
			w.check()
		})
	}
}

// providerHistory is a random history of one provider's jobs.
type providerHistory struct {
	*world
	r       *rand.Rand
	limit   int
	tokens  uint64
	ledger  ledger
	running []*op.Leased
	left    int // jobs of the provider not settled yet
}

func (h *providerHistory) step() {
	h.t.Helper()
	switch h.r.IntN(10) {
	case 0, 1:
		n := 1 + h.r.IntN(4)
		h.apply(h.jobsFor("p", "q", n))
		h.left += n
	case 2:
		h.apply(h.newJobs("q", 1))
		h.fetchSome(1000) // even if jobs before it wait for the provider
		if plain := h.store.Fetchable("q"); plain != 0 {
			h.t.Fatalf("%d jobs are left after a fetch of all", plain)
		}
	case 3, 4:
		h.fetchSome(1 + h.r.IntN(5))
	case 5, 6:
		h.end()
	case 7:
		h.open()
	case 8:
		h.clockNs += h.r.Int64N(int64(20 * time.Second))
	default:
		if h.r.IntN(8) == 0 {
			h.restart()
		}
	}
}

// fetchSome fetches and compares the fetched jobs with the limits.
func (h *providerHistory) fetchSome(n int) {
	h.t.Helper()
	reserved := h.traffic().GetReservedOutputTokens()
	got := one[*op.FetchResult](h.world, h.fetch("q", uint32(min(n, job.MaxFetchJobs)))).Jobs
	for _, l := range got {
		j, err := h.store.Job(job.ID(l.Id))
		if err != nil {
			h.t.Fatal(err)
		}
		if j.Options.GetProvider() == "" {
			h.apply(ack(l))
			continue
		}
		if _, had := h.ledger.lately(h.clockNs); had+reserved >= h.tokens {
			h.t.Fatalf("an attempt began with %d tokens used and %d reserved of %d", had, reserved, h.tokens)
		}
		reserved += uint64(j.Lease.Reservation.ReservedOutputTokens)
		h.ledger.requests = append(h.ledger.requests, h.clockNs)
		h.running = append(h.running, l)
	}
	if n, _ := h.ledger.lately(h.clockNs); n > h.limit {
		h.t.Fatalf("%d requests in a minute of %d", n, h.limit)
	}
}

func (h *providerHistory) traffic() *state.Traffic {
	h.t.Helper()
	r := h.store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_PROVIDER, "p")
	traffic, err := h.store.Traffic([16]byte(r.Id))
	if err != nil {
		h.t.Fatal(err)
	}
	return traffic
}

// end ends one running attempt in some way.
func (h *providerHistory) end() {
	if len(h.running) == 0 {
		return
	}
	i := h.r.IntN(len(h.running))
	l := h.running[i]
	h.running = append(h.running[:i], h.running[i+1:]...)
	used := &job.Usage{OutputTokens: h.r.Int64N(300)}
	proof := &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}
	switch h.r.IntN(3) {
	case 0:
		h.apply(&op.Fail{Items: []*op.FailItem{{Proof: proof, Reason: op.FailReason_FAIL_REASON_UNDELIVERED}}})
		return
	case 1:
		h.apply(&op.Heartbeat{Items: []*op.HeartbeatItem{{Proof: proof, Usage: used}}})
		h.ledger.tokens = append(h.ledger.tokens, begun{h.clockNs, uint64(used.OutputTokens)})
	}
	h.apply(&op.Ack{Items: []*op.AckItem{{Proof: proof, Usage: used}}})
	h.ledger.tokens = append(h.ledger.tokens, begun{h.clockNs, uint64(used.OutputTokens)})
	h.left--
}

// open reads the gate as the duty does, but opens it for arbitrary jobs.
func (h *providerHistory) open() {
	h.t.Helper()
	snapshot := h.store.Snapshot()
	ids, err := snapshot.AtGate(job.Gate_GATE_PROVIDER, "p", 1+h.r.IntN(9))
	if err != nil {
		h.t.Fatal(err)
	}
	snapshot.Close()
	if len(ids) == 0 {
		return
	}
	o := &op.OpenGate{}
	for _, id := range ids {
		o.JobIds = append(o.JobIds, id[:])
	}
	h.apply(o)
}

// finish lets time pass until everybody has been let through.
func (h *providerHistory) finish() {
	h.t.Helper()
	for n := 0; h.left > 0; n++ {
		if n == 100_000 {
			h.t.Fatalf("%d jobs are never let through", h.left)
		}
		h.fetchSome(100)
		h.end()
		h.open()
		h.clockNs += int64(3 * time.Second)
	}
	if t := h.traffic(); t.ReservedOutputTokens != 0 || t.ReservedInputTokens != 0 {
		h.t.Errorf("%d and %d tokens are reserved for nobody", t.ReservedInputTokens, t.ReservedOutputTokens)
	}
	if gates := h.store.Gates(); len(gates) != 0 {
		h.t.Errorf("at gates wait %v", gates)
	}
}
