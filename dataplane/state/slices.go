package state

import (
	"cmp"
	"slices"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// What a shard has of a budget that the shards of a namespace share. To the first
// shard, which has the budget's windows, money that it has granted is reserved, like
// that of an attempt of its own; the shard reserves its attempts' money in it. A slice is
// of no window: what is spent of it is booked in the windows that are when the first
// shard is told, which is later than it was spent. So it may count for too long, and
// never for too short.

// Shared says whether shards share a budget: those whose jobs lie on several of them.
func (r *Resource) Shared() bool {
	switch r.GetBudget().GetScope() {
	case BudgetScope_BUDGET_SCOPE_NAMESPACE, BudgetScope_BUDGET_SCOPE_TAG, BudgetScope_BUDGET_SCOPE_KEY:
		return r.Shards > 1
	}
	return false
}

// Free is what no attempt has reserved.
func (s *Slice) Free() money.Nano { return money.Nano(s.GrantedNanoUsd - s.ReservedNanoUsd) }

// Reserve reserves an amount for an attempt. What is not free is taken ungranted: who
// must not do that has looked before.
func (s *Slice) Reserve(amount, nowNs int64) {
	if lacks := amount - int64(s.Free()); lacks > 0 {
		s.GrantedNanoUsd += lacks
		s.GoneNanoUsd -= lacks
		s.note(nowNs)
	}
	s.ReservedNanoUsd += amount
	s.UsedNs = nowNs
}

// Release gives back what was reserved for an attempt; Spend says what came of it.
func (s *Slice) Release(amount, nowNs int64) {
	s.ReservedNanoUsd -= amount
	s.UsedNs = nowNs
}

// Spend books what was spent of what is free. Overrun is taken from that, too, as far as
// it goes: no attempt takes money for its own that is known to be gone. What is left of
// it then is more than was granted, and no shard has it.
func (s *Slice) Spend(cost billing.Sums, nowNs int64) (left money.Nano) {
	if cost == (billing.Sums{}) {
		return 0
	}
	covered := min(cost.Overrun, max(s.Free()-cost.Settled, 0))
	s.GrantedNanoUsd -= int64(cost.Settled + covered)
	s.GoneNanoUsd += int64(cost.Settled + covered)
	sum := s.Untold().Add(cost)
	s.SettledNanoUsd, s.OverrunNanoUsd = int64(sum.Settled), int64(sum.Overrun)
	s.note(nowNs)
	return cost.Overrun - covered
}

// Untold is what was spent and the first shard has not been told of.
func (s *Slice) Untold() billing.Sums {
	return billing.Sums{Settled: money.Nano(s.SettledNanoUsd), Overrun: money.Nano(s.OverrunNanoUsd)}
}

// note notes that there is something to tell.
func (s *Slice) note(nowNs int64) {
	if s.UntoldNs == 0 {
		s.UntoldNs = nowNs
	}
}

// GivesBack says whether what is free at nowNs is given back: because others need it, or
// because nobody has used it for long.
func (s *Slice) GivesBack(nowNs int64) bool {
	return s.Free() > 0 && nowNs >= s.KeepNs && (s.Recall != 0 || s.ReservedNanoUsd == 0 && nowNs >= s.UsedNs+int64(job.SliceIdle))
}

// GiveBack gives back what is free.
func (s *Slice) GiveBack() {
	s.GoneNanoUsd += int64(s.Free())
	s.GrantedNanoUsd = s.ReservedNanoUsd
}

// Told forgets what the first shard is being told of.
func (s *Slice) Told() {
	s.SettledNanoUsd, s.OverrunNanoUsd, s.GoneNanoUsd, s.UntoldNs = 0, 0, 0, 0
}

// Lacks is what is needed to have an amount free; at least 1 nano-dollar must be.
func (s *Slice) Lacks(amount money.Nano) money.Nano { return max(max(amount, 1)-s.Free(), 0) }

// TellNs is when the first shard is to be told something; 0 for never.
func (s *Slice) TellNs() (due int64) {
	at := func(ns int64) {
		if due == 0 || ns < due {
			due = ns
		}
	}
	if s.UntoldNs != 0 {
		at(s.UntoldNs + int64(job.SliceReport))
	}
	switch {
	case s.Recall != 0 && !s.Returned:
		at(s.KeepNs)
	case s.Free() > 0 && s.Recall != 0:
		at(max(s.KeepNs, s.UsedNs+int64(job.SliceReport)))
	case s.Free() > 0 && s.ReservedNanoUsd == 0:
		at(max(s.KeepNs, s.UsedNs+int64(job.SliceIdle)))
	}
	return due
}

// Postpone has what is to be told at nowNs be told later.
func (s *Slice) Postpone(nowNs int64) {
	if s.UntoldNs != 0 {
		s.UntoldNs = nowNs
	}
	s.UsedNs, s.KeepNs = nowNs, nowNs+int64(job.SliceReport)
}

// ShareOf is what the first shard knows of a shard's slice: it is made where there is
// none.
func (a *Account) ShareOf(shard uint32) *Share {
	i, there := slices.BinarySearchFunc(a.Shares, shard, func(s *Share, shard uint32) int { return cmp.Compare(s.Shard, shard) })
	if !there {
		a.Shares = slices.Insert(a.Shares, i, &Share{Shard: shard})
	}
	return a.Shares[i]
}

// Give has a share have so much more, or less, of what is granted.
func (a *Account) Give(to *Share, amount int64) {
	to.GrantedNanoUsd += amount
	a.ReservedNanoUsd += amount
}

// slices checks what an account says of slices.
func (c *checker) slices(id [16]byte, a *Account) error {
	if s := a.Slice; s != nil && (s.ReservedNanoUsd < 0 || s.Free() < 0 || s.WantNanoUsd < 0) {
		c.report("the slice of budget %q (%x) has %d granted, %d reserved, and wants %d", a.Name, id, s.GrantedNanoUsd, s.ReservedNanoUsd, s.WantNanoUsd)
	}
	granted := int64(0)
	for i, s := range a.Shares {
		granted += s.GrantedNanoUsd
		if s.GrantedNanoUsd < 0 || s.WantNanoUsd < 0 || i > 0 && a.Shares[i-1].Shard >= s.Shard {
			c.report("budget %q (%x) has %v as its share %d", a.Name, id, s, i)
		}
	}
	if a.Slice != nil && granted != a.ReservedNanoUsd {
		c.report("budget %q (%x) has %d granted, its shares have %d", a.Name, id, a.ReservedNanoUsd, granted)
	}
	return nil
}
