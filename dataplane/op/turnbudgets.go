package op

import (
	"errors"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TurnBudgets begins new windows of budgets whose calendar window is over. A new window has nothing spent,
// unless it begins within the old one; the reserves of running attempts stay. The proposer computes the start
// and end of the windows. Apply skips windows that are gone, were turned or changed since the proposer read
// them, or are not over by the entry's clock.

// Validate refuses an op that no state could accept.
func (o *TurnBudgets) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("turns", len(o.Turns), job.MaxDutyItems)
	for i, t := range o.Turns {
		if len(t.GetId()) != len(job.ID{}) {
			p.item("turns", i, "id", errors.New("is no id of a budget"))
		}
		if t.GetSeenEndNs() <= 0 || t.GetStartNs() < 0 || t.GetEndNs() <= t.GetStartNs() || t.GetEndNs() <= t.GetSeenEndNs() {
			p.item("turns", i, "end_ns", errors.New("must come after the start, and after the end of the window before"))
		}
	}
	p.whole(o)
	return p.err()
}

// Apply turns the windows. It refuses nothing.
func (o *TurnBudgets) Apply(tx *state.Tx) (*TurnBudgetsResult, error) {
	result := &TurnBudgetsResult{}
	for _, t := range o.Turns {
		id := [16]byte(t.Id)
		a, err := tx.Account(id)
		if err != nil {
			return nil, err
		}
		spent := windowOf(a.GetSpent(), t.Window)
		if spent == nil || spent.EndNs != t.SeenEndNs || tx.ClockNs() < spent.EndNs {
			continue
		}
		// After a change of the budget's time zone, the new window may begin within the old one, and money spent
		// in the old one may belong to the new one.
		if t.StartNs >= spent.EndNs {
			spent.SettledNanoUsd, spent.OverrunNanoUsd, spent.Alerted = 0, 0, 0
		}
		spent.StartNs, spent.EndNs = t.StartNs, t.EndNs
		if err := tx.PutAccount(id, a); err != nil {
			return nil, err
		}
		result.Turned++
		if r := tx.ResourceIndex().ResourceByID(id); r.Shared() {
			if err := serve(tx, r); err != nil {
				return nil, err
			}
		}
	}
	return result, nil
}
