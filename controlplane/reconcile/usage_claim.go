package reconcile

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
)

// recordEvery is the time between two records of claims, so that they are few entries in the log however many sources
// there are.
const recordEvery = time.Minute

// ObserveGateway records the claim in a report of a gateway. The caller passes only registered gateways.
func (o *Observations) ObserveGateway(id string, claim billing.Claim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.host(id).usage = claim
}

// claims returns the newest claims of gateways, and of the leaders of shards, in the order of their sources.
func (o *Observations) claims() (all []*store.UsageClaim) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, h := range o.hosts {
		if h.usage.UntilNs > 0 {
			all = append(all, &store.UsageClaim{Host: id, Stream: "gateway/" + id, UntilNs: h.usage.UntilNs})
		}
		for namespace, c := range h.cells {
			for shard, g := range c.Groups {
				if g.Role != wire.Leading || g.Usage == nil || shard >= len(c.Incarnations) {
					continue
				}
				all = append(all, &store.UsageClaim{
					Host: id, Namespace: namespace, Stream: fmt.Sprintf("shard/%d", shard), Incarnation: hex.EncodeToString(c.Incarnations[shard][:]),
					Last: g.Usage.Last, UntilNs: g.Usage.UntilNs,
				})
			}
		}
	}
	slices.SortFunc(all, func(a, b *store.UsageClaim) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetStream(), b.GetStream()), cmp.Compare(a.GetUntilNs(), b.GetUntilNs()))
	})
	return all
}

// claimBook knows which claims the reconciler has recorded in the present term.
type claimBook struct {
	due      time.Time          // of the next record
	recorded map[claimant]int64 // by source, the time that was recorded last
}

// claimant is a source of usage.
type claimant struct{ namespace, stream, incarnation string }

// recordClaims records the claims that are new since the last record, every recordEvery. It tries the claims of an op that
// fails again.
func (r *Reconciler) recordClaims(ctx context.Context, term uint64) {
	book, now := &r.claims, r.cfg.Now()
	if now.Before(book.due) {
		return
	}
	next := make(map[claimant]int64)
	var fresh []*store.UsageClaim
	for _, c := range r.cfg.Observations.claims() {
		of := claimant{c.GetNamespace(), c.GetStream(), c.GetIncarnation()}
		if book.recorded[of] >= c.GetUntilNs() {
			next[of] = book.recorded[of]
			continue
		}
		fresh = append(fresh, c)
	}
	for some := range slices.Chunk(fresh, store.MaxClaims) {
		ctx, cancel := context.WithTimeout(ctx, StepTimeout)
		_, err := store.ProposeInTerm[*store.RecordClaimsResult](ctx, r.cfg.Store, term, &store.RecordClaims{Meta: &store.Meta{Principal: Principal}, Claims: some})
		cancel()
		if err != nil {
			r.cfg.Logger.Warn("claims that usage is complete were not recorded; the reconciler tries again", "claims", len(some), "error", err)
			break
		}
		for _, c := range some {
			next[claimant{c.GetNamespace(), c.GetStream(), c.GetIncarnation()}] = c.GetUntilNs()
		}
	}
	if len(next) > 0 { // else this term has recorded none, and the first ones are recorded as soon as they come
		book.due = now.Add(recordEvery)
	}
	book.recorded = next
}
