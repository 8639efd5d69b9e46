package op

import (
	"fmt"
	"math"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/state"
)

// A budget whose jobs lie on several shards is kept by the first one: it has the windows,
// and grants the shards slices of what is available, one to itself like to the others. A
// shard lets jobs go on its slice alone. One that lacks money asks, and its job waits
// until the first shard has answered: with a grant, or that there is no room, which it
// says when all others have given back what they do not use. Who was told so goes on
// asking, and is served as soon as there is room, in the order in which they asked.
//
//	available = limit - settled - overrun - granted to the shards
//
// What is granted counts as spent until it is told of as spent, or comes back: whatever
// is lost, delayed or repeated on the way, the shards together never have more than there
// is. This file is a shard's side, serve.go the first shard's.

// firstShard is the shard on which budgets are kept.
const firstShard = 0

// boundless says whether attempts begin whatever a budget has room for: they take their
// money without asking, and it is told of.
func boundless(b *state.Budget) bool {
	return b.OnExceed == state.OnExceed_ON_EXCEED_ALERT_ONLY || len(b.Limits) == 0
}

// shortOfSlice says what keeps a slice from having room for an amount more.
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

// asking says that it is not known yet whether there is room.
func (s *shortage) asking(r *state.Resource) string {
	return fmt.Sprintf("budget %s is shared by %d shards, and the job may cost %s, more than this shard was granted: the first shard is asked for more", r.Name, r.Shards, s.amount)
}

// askFor asks the first shard for what is lacking to have an amount free.
func askFor(tx *state.Tx, r *state.Resource, amount money.Nano) error {
	a, err := accountOf(tx, r)
	if err != nil {
		return err
	}
	a.Slice.Ask++
	a.Slice.WantNanoUsd, a.Slice.Denial = int64(amount), nil
	return tell(tx, r, a)
}

// tell tells the first shard of a budget all that it does not know of this one's slice,
// and gives back what is to be.
func tell(tx *state.Tx, r *state.Resource, a *state.Account) error {
	s := a.Slice
	if s.GivesBack(tx.ClockNs()) {
		s.GiveBack()
	}
	s.Returned = s.Recall != 0 && (s.Returned || s.Free() == 0)
	lacks := int64(0)
	if s.WantNanoUsd != 0 {
		if lacks = int64(s.Lacks(money.Nano(s.WantNanoUsd))); lacks == 0 {
			s.WantNanoUsd, s.Denial = 0, nil // its own attempts have left enough
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

// spendSlice books what an attempt has cost. The first shard is told at once where it may
// else grant what is gone, and where others need what the attempt has left; unless the way
// there is full, for then, as otherwise, a duty tells it a moment later.
func spendSlice(tx *state.Tx, r *state.Resource, a *state.Account, cost billing.Sums) error {
	left := a.Slice.Spend(cost, tx.ClockNs())
	now := left > 0 && !boundless(r.Budget) || a.Slice.Recall != 0 && a.Slice.GivesBack(tx.ClockNs())
	if now && (tx.Shard() == firstShard || tx.CanSend(firstShard)) {
		return tell(tx, r, a)
	}
	return tx.PutAccount([16]byte(r.Id), a)
}

// reservedOn is what attempts of this shard have reserved on a budget.
func reservedOn(a *state.Account) int64 {
	if a.Slice != nil {
		return a.Slice.ReservedNanoUsd
	}
	return a.ReservedNanoUsd
}

// reservable is the most that this shard may come to have reserved on a budget: where
// nothing bounds it, the shards together must still have a sum.
func reservable(r *state.Resource, a *state.Account) int64 {
	if a.Slice != nil && boundless(r.Budget) {
		return math.MaxInt64 / 2 / int64(r.Shards)
	}
	return math.MaxInt64
}

// putShared opens a shared budget's slice on this shard. What the first one has said of
// room was about the budget as it was; there, those who wait are served again.
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
