package sinks

import (
	"context"
	"time"

	"github.com/corvo/corvo/billing"
)

const (
	// claimTimeout bounds the wait for Clock, because rows are not delivered meanwhile.
	claimTimeout = 5 * time.Second
	// claimAgain is the pause after a claim that failed.
	claimAgain = time.Minute
)

// Claim returns the shard's newest claim, for the newest part of its usage, or nil. A claim stays true when the shard
// leads no more, because it is about the shard's log.
func (u *Usage) Claim() *billing.Claim { return u.claim.Load() }

// claims reports whether the sink makes claims. A member that may not lead makes none, because it may lack rows.
func (u *Usage) claims() bool { return u.cfg.Clock != nil && !u.follows }

// claimable returns the time of the next claim if one is due, or 0. Its caller delivers all rows afterwards: the rows
// before that time are in the store now.
func (u *Usage) claimable(ctx context.Context) int64 {
	if !u.claims() || time.Now().Before(u.claimDue) {
		return 0
	}
	u.claimDue = time.Now().Add(claimAgain)
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	untilNs, err := u.cfg.Clock(ctx)
	if err != nil {
		u.cfg.Logger.Debug("the shard cannot claim that its usage is complete; it tries again", "namespace", u.cfg.Namespace, "stream", u.cfg.Stream, "error", err)
		return 0
	}
	return untilNs
}

// putClaim makes a claim for a time that claimable returned, because all rows have been delivered since; 0 makes none.
func (u *Usage) putClaim(untilNs int64) {
	parts := usageParts(billing.Source{}, u.cfg.Store.Head())
	base, acked := parts[len(parts)-1].base, u.Acked()
	if untilNs <= 0 || acked < base {
		return
	}
	if was := u.claim.Load(); was != nil {
		untilNs = max(untilNs, was.UntilNs) // the clock of another leader may be behind
	}
	u.claim.Store(&billing.Claim{UntilNs: untilNs, Last: acked - base})
	u.claimDue = time.Now().Add(billing.ClaimEvery)
}
