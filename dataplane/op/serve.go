package op

import (
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/state"
)

// serve does on the first shard what can be done for those that lack money of a shared
// budget: it grants, asks the others for what they do not use, and says that there is no
// room. It looks anew after each step, for the first shard is one of those it serves:
// what it sends itself has changed things when send returns.
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

// nextGrant is the next thing to tell a shard, noted in the account; nil for nothing. All
// those that there is room for are served first, whoever they wait behind: as at a gate,
// a large want does not hold up the small ones.
func nextGrant(r *state.Resource, a *state.Account, nowNs int64) (*state.Share, *GrantBudget) {
	waiting := 0
	var first, fits *state.Share // of those not denied, and of those there is room for
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

// grant grants a shard what it lacks. Where nobody else waits it is more, half of its part
// of what is available, so that it asks seldom and others find some; where somebody does,
// what it does not use of it comes back.
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

// available is what all windows of a budget leave; 0 without any, for then nobody asks.
func available(b *state.Budget, a *state.Account, nowNs int64) (least money.Nano) {
	for i, l := range b.Limits {
		if left := a.Available(b, l, a.Spent[i], nowNs); i == 0 || left < least {
			least = left
		}
	}
	return least
}

// serveNs is when the passing of time may have made room, or taken it: when a rolling
// window has moved on, or a raise is over. A calendar's window is turned by an op. 0 is
// never.
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
