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

// The money of an attempt is reserved when the attempt begins: the same amount on every budget that applies.
// The reservation grows if a heartbeat reports a cost above it and the budgets that do more than alert have
// room. It is settled when the attempt ends, however the attempt ends. A cost is never refused for want of
// room: without room it counts as overrun, and the budget keeps back the next attempt, unless the budget only
// alerts.

// reserveBudgets reserves the attempt's expected cost on every budget that applies. The caller must have
// checked that the budgets that do more than alert have room.
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
		// A budget that only alerts may have more reserved than it has room for. The minimum keeps the sum from
		// overflowing.
		amount = min(amount, money.Nano(max(reservable(r, a)-reservedOn(a), 0)))
	}
	c := reservation(j)
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

// settleBudgets releases the attempt's reservation and books its cost, on each of its budgets that still
// exists.
func settleBudgets(tx *state.Tx, j *job.Job) error {
	c := j.Lease.Reservation
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

// spendOn books a cost of this shard on a budget.
func spendOn(tx *state.Tx, r *state.Resource, a *state.Account, cost billing.Sums) error {
	if a.Slice == nil {
		return recordCost(tx, r, a, cost)
	}
	return spendSlice(tx, r, a, cost)
}

// recordCost adds a cost to each window of a budget, raises the alerts of the thresholds that the spending
// newly reaches, and stores the account.
func recordCost(tx *state.Tx, r *state.Resource, a *state.Account, cost billing.Sums) error {
	var events []state.EventType
	if cost != (billing.Sums{}) {
		for i, l := range r.Budget.Limits {
			a.Spent[i].Add(cost, tx.ClockNs())
			for _, percent := range a.Spent[i].RaiseAlerts(alertThresholds(r.Budget), r.Budget.Limit(l.LimitNanoUsd, tx.ClockNs()), tx.ClockNs()) {
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

// spend records the cost that a running attempt reports. On a budget that was declared after the attempt
// began, the attempt has no reservation, so all of the cost is overrun.
func spend(tx *state.Tx, j *job.Job, costNanoUsd int64) error {
	if costNanoUsd == 0 {
		return nil
	}
	c := reservation(j)
	c.CostNanoUsd += costNanoUsd // the queue's expected cost uses it even while no budget applies
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

// holds reports whether an attempt has its reservation on a budget.
func holds(c *job.Reservation, r *state.Resource) bool {
	for _, id := range c.GetBudgetIds() {
		if bytes.Equal(id, r.Id) {
			return true
		}
	}
	return false
}

// topUp reserves the money by which an attempt has exceeded its reservation, and reports whether the attempt
// may continue. If a budget has no room, topUp instead books the excess at once, so that no other attempt
// takes that money, and returns false. It also returns false if the attempt has used all of its reservation
// and no more can be had, or if a budget declared after the attempt began has no money left. If the first
// shard of a shared budget still has to answer, topUp books the excess but does not return false for that,
// because there may be room the next time. A budget that only alerts never makes topUp return false.
func topUp(tx *state.Tx, j *job.Job) (ok bool, err error) {
	budgets := budgetsOf(tx.ResourceIndex(), j)
	if len(budgets) == 0 {
		return true, nil
	}
	c := j.Lease.GetReservation()
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

// shortNow calls shortOn for the running entry. If a shared budget lacks money, shortNow asks the first shard
// and calls shortOn again, because on the first shard the answer is there at once.
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

// stillShort refuses to release a job that a budget holds while a budget would hold or reject the job again
// at the next fetch. A budget that would only make the job wait is no reason to refuse. stillShort checks the
// job with the options that it would run with, because the options determine the reservation. Nil means no
// refusal.
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
