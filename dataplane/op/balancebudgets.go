package op

import (
	"github.com/corvo/corvo/dataplane/state"
)

// BalanceBudgets does the timed work of shared budgets. A shard that applies the op reports the changes of
// its slice to the first shard and gives back money that the first shard has recalled or that no attempt has
// used for long. The first shard also serves the shards that wait for money. A budget with nothing due at the
// entry's clock is skipped.

// Validate refuses an op that no state could accept.
func (o *BalanceBudgets) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("ids", o.Ids)
	return p.err()
}

// Apply balances the budgets. It refuses nothing.
func (o *BalanceBudgets) Apply(tx *state.Tx) (*BalanceBudgetsResult, error) {
	result := &BalanceBudgetsResult{}
	for _, id := range o.Ids {
		r := tx.ResourceIndex().ResourceByID([16]byte(id))
		if !r.Shared() {
			continue
		}
		a, err := accountOf(tx, r)
		if err != nil {
			return nil, err
		}
		if !BalanceDue(a, tx.ClockNs()) {
			continue
		}
		result.Balanced++
		if at := a.Slice.ReportNs(); at != 0 && at <= tx.ClockNs() {
			if err := notifyOrPostpone(tx, r, a); err != nil {
				return nil, err
			}
		}
		if tx.Shard() == firstShard {
			if err := serve(tx, r); err != nil {
				return nil, err
			}
		}
	}
	return result, nil
}

// BalanceDue reports whether BalanceBudgets has work for a budget at nowNs.
func BalanceDue(a *state.Account, nowNs int64) bool {
	if a.GetSlice() == nil {
		return false
	}
	at := a.Slice.ReportNs()
	return at != 0 && at <= nowNs || a.ServeNs != 0 && a.ServeNs <= nowNs
}

// notifyOrPostpone reports to the first shard, or postpones the report if the outbox to the first shard is
// full.
func notifyOrPostpone(tx *state.Tx, r *state.Resource, a *state.Account) error {
	if tx.Shard() == firstShard || tx.CanSend(firstShard) {
		return notifyFirstShard(tx, r, a)
	}
	a.Slice.Postpone(tx.ClockNs())
	return tx.PutAccount([16]byte(r.Id), a)
}
