package state

import (
	"cmp"
	"slices"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// A slice is a shard's part of a budget that the shards of a namespace share. The first shard holds the
// budget's windows. It grants money to each shard, itself included, and counts granted money as reserved; a
// shard reserves its attempts' money within its grant. A slice belongs to no window: the first shard books
// spending in the windows that are current when it receives the report, which is later than the spending. So
// spending may count for too long, but never for too short a time.

// Shared reports whether several shards share a budget, because its jobs lie on several of them.
func (r *Resource) Shared() bool {
	switch r.GetBudget().GetScope() {
	case BudgetScope_BUDGET_SCOPE_NAMESPACE, BudgetScope_BUDGET_SCOPE_TAG, BudgetScope_BUDGET_SCOPE_KEY:
		return r.Shards > 1
	}
	return false
}

// Free returns the granted money that no attempt has reserved.
func (s *Slice) Free() money.Nano { return money.Nano(s.GrantedNanoUsd - s.ReservedNanoUsd) }

// Reserve reserves an amount for an attempt. If less is free, it takes the missing money without a grant; a
// caller that must not do so checks Free first.
func (s *Slice) Reserve(amount, nowNs int64) {
	if lacks := amount - int64(s.Free()); lacks > 0 {
		s.GrantedNanoUsd += lacks
		s.GoneNanoUsd -= lacks
		s.note(nowNs)
	}
	s.ReservedNanoUsd += amount
	s.UsedNs = nowNs
}

// Release makes the reserve of an ended attempt free again. Spend then books the cost.
func (s *Slice) Release(amount, nowNs int64) {
	s.ReservedNanoUsd -= amount
	s.UsedNs = nowNs
}

// Spend books a cost against the free money. An overrun also takes free money, as far as there is any,
// because no attempt may reserve money that is known to be spent. Spend returns the part of the overrun that
// exceeds the free money.
func (s *Slice) Spend(cost billing.Sums, nowNs int64) (left money.Nano) {
	if cost == (billing.Sums{}) {
		return 0
	}
	covered := min(cost.Overrun, max(s.Free()-cost.Settled, 0))
	s.GrantedNanoUsd -= int64(cost.Settled + covered)
	s.GoneNanoUsd += int64(cost.Settled + covered)
	sum := s.Unreported().Add(cost)
	s.SettledNanoUsd, s.OverrunNanoUsd = int64(sum.Settled), int64(sum.Overrun)
	s.note(nowNs)
	return cost.Overrun - covered
}

// Unreported returns the spending that has not been reported to the first shard.
func (s *Slice) Unreported() billing.Sums {
	return billing.Sums{Settled: money.Nano(s.SettledNanoUsd), Overrun: money.Nano(s.OverrunNanoUsd)}
}

// note records that there is something to report.
func (s *Slice) note(nowNs int64) {
	if s.UnreportedNs == 0 {
		s.UnreportedNs = nowNs
	}
}

// GivesBack reports whether the free money is to be given back at nowNs. From KeepNs on it is, if another
// shard needs it, or if no attempt has a reserve and the slice was unused for job.SliceIdle.
func (s *Slice) GivesBack(nowNs int64) bool {
	return s.Free() > 0 && nowNs >= s.KeepNs && (s.Recall != 0 || s.ReservedNanoUsd == 0 && nowNs >= s.UsedNs+int64(job.SliceIdle))
}

func (s *Slice) GiveBack() {
	s.GoneNanoUsd += int64(s.Free())
	s.GrantedNanoUsd = s.ReservedNanoUsd
}

// ClearReport clears the figures that are being reported to the first shard.
func (s *Slice) ClearReport() {
	s.SettledNanoUsd, s.OverrunNanoUsd, s.GoneNanoUsd, s.UnreportedNs = 0, 0, 0, 0
}

// Lacks returns the money that must be added so that an amount is free. It counts an amount below 1
// nano-dollar as 1.
func (s *Slice) Lacks(amount money.Nano) money.Nano { return max(max(amount, 1)-s.Free(), 0) }

// ReportNs returns the time of the next report to the first shard, or 0 for none.
func (s *Slice) ReportNs() (due int64) {
	at := func(ns int64) {
		if due == 0 || ns < due {
			due = ns
		}
	}
	if s.UnreportedNs != 0 {
		at(s.UnreportedNs + int64(job.SliceReport))
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

// Postpone delays every report by at least job.SliceReport from nowNs.
func (s *Slice) Postpone(nowNs int64) {
	if s.UnreportedNs != 0 {
		s.UnreportedNs = nowNs
	}
	s.UsedNs, s.KeepNs = nowNs, nowNs+int64(job.SliceReport)
}

// ShareOf returns the first shard's record of the slice of a shard, which may be the first shard itself. It
// creates the record if necessary.
func (a *Account) ShareOf(shard uint32) *Share {
	i, there := slices.BinarySearchFunc(a.Shares, shard, func(s *Share, shard uint32) int { return cmp.Compare(s.Shard, shard) })
	if !there {
		a.Shares = slices.Insert(a.Shares, i, &Share{Shard: shard})
	}
	return a.Shares[i]
}

// Give adds an amount, which may be negative, to the grant of a share and to the budget's reserved money.
func (a *Account) Give(to *Share, amount int64) {
	to.GrantedNanoUsd += amount
	a.ReservedNanoUsd += amount
}

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
