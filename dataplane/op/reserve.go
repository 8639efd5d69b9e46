package op

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// The way of an attempt's money: reserved when it begins, on every budget that applies
// and the same amount on each; topped up when it reports more; settled when it ends,
// however it ends. What is reported is never refused: where there is no room for it, it
// is overrun, and the next attempt is kept.

// reserveBudgets reserves for the attempt what it is expected to cost, on every budget
// that applies. They have been asked before.
func reserveBudgets(tx *state.Tx, j *job.Job) error {
	budgets := budgetsOf(tx.ResourceIndex(), j)
	if len(budgets) == 0 {
		return nil
	}
	amount := expectedCost(j, budgets, tx.Queue(j.Queue).GetExpectedCostNanoUsd())
	for _, r := range budgets {
		a, err := accountOf(tx, r)
		if err != nil {
			return err
		}
		// One that only tells may come to more than fits.
		amount = min(amount, money.Nano(max(reservable(r, a)-reservedOn(a), 0)))
	}
	c := claims(j)
	c.ReservedNanoUsd = int64(amount)
	for _, r := range budgets {
		c.BudgetIds = append(c.BudgetIds, r.Id)
		if err := reserve(tx, r, int64(amount)); err != nil {
			return err
		}
	}
	return nil
}

// reserve reserves an amount on one budget.
func reserve(tx *state.Tx, r *state.Resource, amount int64) error {
	a, err := accountOf(tx, r)
	if err != nil {
		return err
	}
	if a.Slice != nil {
		a.Slice.Reserve(amount, tx.ClockNs())
	} else {
		a.ReservedNanoUsd += amount
	}
	return tx.PutAccount([16]byte(r.Id), a)
}

// settleBudgets gives back the reservation of the attempt, and books what it cost.
func settleBudgets(tx *state.Tx, j *job.Job) error {
	c := j.Lease.Claims
	cost := billing.Settle(money.Nano(c.SpentNanoUsd), money.Nano(c.ReservedNanoUsd))
	for _, id := range c.BudgetIds {
		r := tx.ResourceIndex().ResourceByID([16]byte(id))
		if r == nil {
			continue // deleted since
		}
		a, err := accountOf(tx, r)
		if err != nil {
			return err
		}
		if reserved := reservedOn(a); reserved < c.ReservedNanoUsd {
			return fmt.Errorf("budget %q has %d reserved, of which job %s has %d", r.Name, reserved, job.ID(j.Id), c.ReservedNanoUsd)
		}
		if a.Slice != nil {
			a.Slice.Release(c.ReservedNanoUsd, tx.ClockNs())
		} else {
			a.ReservedNanoUsd -= c.ReservedNanoUsd
		}
		if err := spendOn(tx, r, a, cost); err != nil {
			return err
		}
	}
	return nil
}

// spendOn counts what was spent on a budget by this shard.
func spendOn(tx *state.Tx, r *state.Resource, a *state.Account, cost billing.Sums) error {
	if a.Slice == nil {
		return book(tx, r, a, cost)
	}
	return spendSlice(tx, r, a, cost)
}

// book counts what was spent in each window of a budget, and tells of the thresholds
// that it reaches.
func book(tx *state.Tx, r *state.Resource, a *state.Account, cost billing.Sums) error {
	var events []state.EventType
	if cost != (billing.Sums{}) {
		for i, l := range r.Budget.Limits {
			a.Spent[i].Add(cost, tx.ClockNs())
			for _, percent := range a.Spent[i].RaiseAlerts(toldOf(r.Budget), r.Budget.Limit(l.LimitNanoUsd, tx.ClockNs()), tx.ClockNs()) {
				if slices.Contains(r.Budget.Alerts, percent) {
					events = append(events, state.EventType_EVENT_BUDGET_ALERT)
				}
				if percent == exceeded && r.Budget.OnExceed == state.OnExceed_ON_EXCEED_ALERT_ONLY {
					events = append(events, state.EventType_EVENT_BUDGET_EXCEEDED)
				}
			}
		}
	}
	return tx.PutAccount([16]byte(r.Id), a, events...)
}

// spend notes what a running attempt has cost by a report. On a budget on which it has
// nothing reserved, because that was made later, all of it is overrun.
func spend(tx *state.Tx, j *job.Job, costNanoUsd int64) error {
	if costNanoUsd == 0 {
		return nil
	}
	c := claims(j)
	c.CostNanoUsd += costNanoUsd // the queue learns from it, also while no budget applies
	if len(c.BudgetIds) > 0 {
		c.SpentNanoUsd += costNanoUsd
	}
	for _, r := range budgetsOf(tx.ResourceIndex(), j) {
		if holds(c, r) {
			continue
		}
		a, err := accountOf(tx, r)
		if err != nil {
			return err
		}
		if err := spendOn(tx, r, a, billing.Sums{Overrun: money.Nano(costNanoUsd)}); err != nil {
			return err
		}
	}
	return nil
}

// holds says whether an attempt has its reservation on a budget.
func holds(c *job.Claims, r *state.Resource) bool {
	for _, id := range c.GetBudgetIds() {
		if bytes.Equal(id, r.Id) {
			return true
		}
	}
	return false
}

// topUp reserves more for an attempt that has cost more than was reserved, and says
// whether there is room for it. Where there is none, what it has cost beyond its
// reservation is booked at once, so that no other takes that money for its own, and its
// worker is told; so is one that has used all of its reservation up where no more can be
// had. Where a shared budget's first shard has to be asked it is booked, too, and the
// worker is not told: there may be room the next time.
func topUp(tx *state.Tx, j *job.Job) (ok bool, err error) {
	budgets := budgetsOf(tx.ResourceIndex(), j)
	if len(budgets) == 0 {
		return true, nil
	}
	c := j.Lease.GetClaims()
	extra := max(c.GetSpentNanoUsd()-c.GetReservedNanoUsd(), 0)
	usedUp := c.GetSpentNanoUsd() >= c.GetReservedNanoUsd()
	ok, fits := true, true
	over := false
	for _, r := range budgets {
		a, err := accountOf(tx, r)
		if err != nil {
			return false, err
		}
		need := int64(0)
		if holds(c, r) {
			if !usedUp {
				continue
			}
			need = extra
		}
		fits = fits && reservedOn(a) <= reservable(r, a)-need
		if r.Budget.OnExceed == state.OnExceed_ON_EXCEED_ALERT_ONLY {
			continue
		}
		short, err := shortNow(tx, r, a, money.Nano(j.Usage.GetCostNanoUsd()-need), money.Nano(need))
		if err != nil {
			return false, err
		}
		ok = ok && short == nil
		over = over || short != nil && !short.unknown
	}
	if extra == 0 {
		return !over, nil
	}
	if ok && fits {
		c.ReservedNanoUsd += extra
	} else {
		c.SpentNanoUsd -= extra
	}
	for _, r := range budgets {
		if !holds(c, r) {
			continue
		}
		if ok && fits {
			err = reserve(tx, r, extra)
		} else {
			var a *state.Account
			if a, err = accountOf(tx, r); err == nil {
				err = spendOn(tx, r, a, billing.Sums{Overrun: money.Nano(extra)})
			}
		}
		if err != nil {
			return false, err
		}
	}
	return !over, nil
}

// shortNow is shortOn in an entry, as decide is Decide.
func shortNow(tx *state.Tx, r *state.Resource, a *state.Account, jobCost, amount money.Nano) (*shortage, error) {
	for {
		short := shortOn(r.Budget, a, jobCost, amount, tx.ClockNs())
		if short == nil || short.asks == 0 {
			return short, nil
		}
		if err := askFor(tx, r, short.asks); err != nil {
			return nil, err
		}
	}
}

// stillShort refuses to let a job go that a budget holds and still has no room for: it
// would be held again as soon as it is fetched. It is asked with the options that it
// would run with, which say what is reserved. Nil is no refusal.
func stillShort(tx *state.Tx, j *job.Job, with *job.Options) (*Refusal, error) {
	if j.Detail.GetHold() != job.Hold_HOLD_BUDGET {
		return nil, nil
	}
	own := j.Options
	j.Options = with
	v, err := checkBudgets(tx, j)
	j.Options = own
	if err != nil || v.Do == Take || v.Do == Park {
		return nil, err
	}
	return refuse(api.BudgetExceeded, "job %s: %s, and approve the job then", job.ID(j.Id), v.Text), nil
}
