package op

import (
	"fmt"
	"math"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/state"
)

// The first shard keeps a budget whose jobs lie on several shards. It has the windows and grants the shards,
// itself included, slices of the available amount. A shard starts attempts on its slice alone. If the shard
// lacks money it asks, and the job waits for the first shard's answer: a grant, or a denial. The first shard
// denies only after all other shards have given back their unused money. It keeps a denied request and serves
// it as soon as there is room. Of the requests that there is room for, the oldest comes first. On a budget
// that never keeps back an attempt because of its windows (see boundless), a shard starts attempts without
// asking, and reports the money.
//
// available = limit - settled - overrun - granted to the shards
//
// Granted money is unavailable to other shards until its shard gives it back. Once the shard reports it as
// spent, it counts as settled or overrun instead. So the first shard never grants more than the budget
// allows, even if messages are lost, delayed or repeated. This file has the side of each shard,
// budget_serve.go the side of the first shard.

// firstShard is the shard that keeps shared budgets and decides about the namespace's resources.
const firstShard = 0

// boundless reports whether attempts begin whatever room the windows of a budget have. Such attempts take their
// money without asking, and the shard reports it.
func boundless(b *state.Budget) bool {
	return b.OnExceed == state.OnExceed_ON_EXCEED_ALERT_ONLY || len(b.Limits) == 0
}

// shortOfSlice returns the reason why a slice has no room for an additional amount, or nil.
func shortOfSlice(b *state.Budget, s *state.Slice, amount money.Nano, nowNs int64) *shortage {
	if boundless(b) || billing.Admits(s.Free(), amount) {
		return nil
	}
	for _, l := range b.Limits {
		if most := b.Limit(l.LimitNanoUsd, nowNs); amount > most {
			return &shortage{limit: windowWords[l.Window], most: most, available: most, amount: amount, forever: true}
		}
	}
	if d := s.Denial; d != nil && int64(s.Lacks(amount)) >= d.AmountNanoUsd {
		return &shortage{
			limit: windowWords[d.Window], most: money.Nano(d.LimitNanoUsd), available: money.Nano(d.AvailableNanoUsd) + s.Free(), amount: amount, untilNs: d.UntilNs,
		}
	}
	short := &shortage{amount: amount, unknown: true}
	if s.WantNanoUsd == 0 || s.Denial != nil {
		short.asks = max(amount, 1)
	}
	return short
}

// asking returns the text for a job that waits for the first shard's answer.
func (s *shortage) asking(r *state.Resource) string {
	return fmt.Sprintf("budget %s is shared by %d shards, and the job may cost %s, more than this shard was granted: the first shard is asked for more", r.Name, r.Shards, s.amount)
}

// askFor asks the first shard for the money that this shard's slice lacks to reserve an amount.
func askFor(tx *state.Tx, r *state.Resource, amount money.Nano) error {
	a, err := accountOf(tx, r)
	if err != nil {
		return err
	}
	a.Slice.Ask++
	a.Slice.WantNanoUsd, a.Slice.Denial = int64(amount), nil
	return notifyFirstShard(tx, r, a)
}

// notifyFirstShard reports the changes of this shard's slice to the first shard and gives back money that is
// due to be returned.
func notifyFirstShard(tx *state.Tx, r *state.Resource, a *state.Account) error {
	s := a.Slice
	if s.GivesBack(tx.ClockNs()) {
		s.GiveBack()
	}
	s.Returned = s.Recall != 0 && (s.Returned || s.Free() == 0)
	lacks := int64(0)
	if s.WantNanoUsd != 0 {
		if lacks = int64(s.Lacks(money.Nano(s.WantNanoUsd))); lacks == 0 {
			s.WantNanoUsd, s.Denial = 0, nil // its own attempts have released enough
		}
	}
	o := &ReturnBudget{
		Id: r.Id, Shard: tx.Shard(), SettledNanoUsd: s.SettledNanoUsd, OverrunNanoUsd: s.OverrunNanoUsd, GoneNanoUsd: s.GoneNanoUsd,
		Ask: s.Ask, WantNanoUsd: lacks,
	}
	if s.Returned {
		o.Recall = s.Recall
	}
	s.ClearReport()
	if err := tx.PutAccount([16]byte(r.Id), a); err != nil {
		return err
	}
	return send(tx, firstShard, o)
}

// spendSlice books the cost of an attempt. It reports to the first shard at once if that shard might otherwise
// grant money that is already spent, or if other shards need the attempt's leftover. In all other cases, and if
// the outbox is full, a duty reports it a moment later.
func spendSlice(tx *state.Tx, r *state.Resource, a *state.Account, cost billing.Sums) error {
	left := a.Slice.Spend(cost, tx.ClockNs())
	now := left > 0 && !boundless(r.Budget) || a.Slice.Recall != 0 && a.Slice.GivesBack(tx.ClockNs())
	if now && (tx.Shard() == firstShard || tx.CanSend(firstShard)) {
		return notifyFirstShard(tx, r, a)
	}
	return tx.PutAccount([16]byte(r.Id), a)
}

// reservedOn returns the amount that this shard's attempts have reserved on a budget.
func reservedOn(a *state.Account) int64 {
	if a.Slice != nil {
		return a.Slice.ReservedNanoUsd
	}
	return a.ReservedNanoUsd
}

// reservable returns the maximum that this shard may have reserved on a budget. For a shared boundless budget
// it is low enough that the sum over all shards does not overflow.
func reservable(r *state.Resource, a *state.Account) int64 {
	if a.Slice != nil && boundless(r.Budget) {
		return math.MaxInt64 / 2 / int64(r.Shards)
	}
	return math.MaxInt64
}

// putShared stores a shared budget's account and opens its slice on this shard if there is none. It drops the
// first shard's denial, because the denial was about the earlier declaration. On the first shard it serves
// the waiting shards again.
func putShared(tx *state.Tx, r *state.Resource, a *state.Account) error {
	if a.Slice == nil {
		a.Slice = &state.Slice{}
	}
	if a.Slice.Denial != nil {
		a.Slice.WantNanoUsd, a.Slice.Denial = 0, nil
	}
	if err := tx.PutAccount([16]byte(r.Id), a); err != nil || tx.Shard() != firstShard {
		return err
	}
	return serve(tx, r)
}
