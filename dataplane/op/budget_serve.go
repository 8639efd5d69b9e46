package op

import (
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/state"
)

// serve runs on the first shard and answers the shards that lack money of a shared budget: it grants, recalls
// unused money from other shards, and denies. It reads the account again after each step, because the first shard
// is itself one of those shards: a message to itself has changed the account by the time send returns.
func serve(tx *state.Tx, r *state.Resource) error {
	for {
		a, err := accountOf(tx, r)
		if err != nil {
			return err
		}
		to, o := nextGrant(r, a, tx.ClockNs())
		if o == nil {
			if at := serveNs(r.Budget, a, tx.ClockNs()); at != a.ServeNs {
				a.ServeNs = at
				return tx.PutAccount([16]byte(r.Id), a)
			}
			return nil
		}
		o.Id = r.Id
		if err := tx.PutAccount([16]byte(r.Id), a); err != nil {
			return err
		}
		if err := send(tx, to.Shard, o); err != nil {
			return err
		}
	}
}

// nextGrant returns the next message to a shard and records it in the account, or returns nil if none is due.
// It first serves every request that there is room for, the oldest first: as at a gate, a large request does
// not delay small ones. If an undenied request waits and none fits, or the available amount is below 0,
// nextGrant recalls the unused money of the other shards. It denies the oldest undenied request only after the
// other shards have returned that money.
func nextGrant(r *state.Resource, a *state.Account, nowNs int64) (*state.Share, *GrantBudget) {
	waiting := 0
	var first, fits *state.Share // the first by turn that is not denied, and the first that there is room for
	for _, s := range a.Shares {
		if s.WantNanoUsd == 0 {
			continue
		}
		waiting++
		if (fits == nil || s.Turn < fits.Turn) && shortOf(r.Budget, a, money.Nano(s.WantNanoUsd), nowNs) == nil {
			fits = s
		}
		if !s.Denied && (first == nil || s.Turn < first.Turn) {
			first = s
		}
	}
	switch {
	case fits != nil:
		return fits, grant(r, a, fits, waiting == 1, nowNs)
	case first == nil && available(r.Budget, a, nowNs) >= 0:
		return nil, nil
	}
	settled := true
	for _, s := range a.Shares {
		if s == first || s.GrantedNanoUsd == 0 {
			continue
		}
		if s.Recall == 0 && !boundless(r.Budget) {
			a.Turn++
			s.Recall, s.Returned = a.Turn, false
			return s, &GrantBudget{Recall: s.Recall}
		}
		settled = settled && s.Returned
	}
	if first == nil || !settled {
		return nil, nil
	}
	first.Denied = true
	short := shortOf(r.Budget, a, money.Nano(first.WantNanoUsd), nowNs)
	return first, &GrantBudget{Ask: first.Ask, Denial: &state.Denial{
		AmountNanoUsd: first.WantNanoUsd, Window: short.window, LimitNanoUsd: int64(short.most), AvailableNanoUsd: int64(short.available), UntilNs: short.untilNs,
	}}
}

// grant grants a shard its missing amount. If no other shard waits, it grants at least half of an equal share
// of the available amount, so that the shard asks seldom and others still find some. If another shard waits,
// the grant also asks the shard to return the money that the shard does not use.
func grant(r *state.Resource, a *state.Account, to *state.Share, alone bool, nowNs int64) *GrantBudget {
	amount := to.WantNanoUsd
	if alone {
		amount = max(amount, int64(available(r.Budget, a, nowNs))/(2*int64(r.Shards)))
	}
	a.Give(to, amount)
	to.WantNanoUsd, to.Turn, to.Denied, to.Recall, to.Returned = 0, 0, false, 0, false
	if !alone {
		a.Turn++
		to.Recall = a.Turn
	}
	return &GrantBudget{Ask: to.Ask, AmountNanoUsd: amount, Recall: to.Recall}
}

// available returns the smallest amount that a window of a budget leaves. It is 0 for a budget without
// windows, but no shard asks for money of that budget.
func available(b *state.Budget, a *state.Account, nowNs int64) (least money.Nano) {
	for i, l := range b.Limits {
		if left := a.Available(b, l, a.Spent[i], nowNs); i == 0 || left < least {
			least = left
		}
	}
	return least
}

// serveNs returns the next time when the clock alone may change a waiting shard's room: a rolling window
// advances, or a raise ends. 0 means never. TurnBudgets turns calendar windows.
func serveNs(b *state.Budget, a *state.Account, nowNs int64) (at int64) {
	sooner := func(ns int64) {
		if ns > nowNs && (at == 0 || ns < at) {
			at = ns
		}
	}
	if b.RaiseNow(nowNs) != 0 && a.ReservedNanoUsd > 0 {
		sooner(b.RaiseUntilNs)
	}
	for _, s := range a.Shares {
		for i, l := range b.Limits {
			if s.WantNanoUsd == 0 || l.Window != state.Window_WINDOW_ROLLING {
				continue
			}
			least := b.Limit(l.LimitNanoUsd, nowNs) - money.Nano(s.WantNanoUsd) - money.Nano(a.ReservedNanoUsd)
			if least >= 0 {
				sooner(a.Spent[i].FallsTo(least, nowNs))
			}
		}
	}
	return at
}
