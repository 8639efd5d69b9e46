package duties

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// stuckBudgets is the delay before the duty tries again to turn budgets with a time zone that this binary does
// not know. Until they are turned, the spending of the old window counts.
const stuckBudgets = time.Second

// periods are the windows of budgets that follow the calendar.
var periods = map[state.Window]billing.Period{
	state.Window_WINDOW_DAY:   billing.Day,
	state.Window_WINDOW_WEEK:  billing.Week,
	state.Window_WINDOW_MONTH: billing.Month,
}

// BudgetWindows returns the calendar windows of a budget at nowNs, one for each limit that has a calendar
// window.
func BudgetWindows(b *state.Budget, nowNs int64) (all []*state.Spent, err error) {
	zone, err := Zone(b.Timezone)
	if err != nil {
		return nil, err
	}
	for _, l := range b.Limits {
		if p, ok := periods[l.Window]; ok {
			start, end := p.Window(time.Unix(0, nowNs), zone)
			all = append(all, &state.Spent{Window: l.Window, StartNs: start.UnixNano(), EndNs: end.UnixNano()})
		}
	}
	return all, nil
}

// turnBudgets begins the new windows of budgets whose old ones are over, and makes shards exchange their
// reports and grants of shared budgets. It reads as many timers as there can be budgets, because budgets that
// cannot be turned remain the first that are due.
func turnBudgets(ctx context.Context, d *Duties) (int64, error) {
	for {
		nowNs := d.cfg.NowNs()
		ids, err := d.cfg.Store.Due(state.TimerBudget, nowNs, job.MaxBudgets)
		if err != nil {
			return 0, fmt.Errorf("read the timers of budgets: %w", err)
		}
		var turns []*op.Turn
		var balances [][]byte
		var failed error
		stuck := 0
		for i, id := range ids {
			if len(turns)+len(periods) > job.MaxDutyItems {
				break
			}
			a, err := d.cfg.Store.Account(id)
			if err != nil {
				return 0, fmt.Errorf("read the account of a budget's timer: %w", err)
			}
			if op.BalanceDue(a, nowNs) {
				balances = append(balances, ids[i][:])
			}
			more, err := d.turnsOf(id, a, nowNs)
			if err != nil {
				failed = cmp.Or(failed, err)
				stuck++
			}
			turns = append(turns, more...)
		}
		if len(turns) > 0 {
			if err := d.cfg.Propose(ctx, &op.TurnBudgets{Meta: &op.Meta{Principal: "duty"}, Turns: turns}); err != nil {
				return 0, err
			}
		}
		if len(balances) > 0 {
			if err := d.cfg.Propose(ctx, &op.BalanceBudgets{Meta: &op.Meta{Principal: "duty"}, Ids: balances}); err != nil {
				return 0, err
			}
		}
		if len(turns) > 0 || len(balances) > 0 {
			continue
		}
		next := never
		if stuck > 0 {
			d.cfg.Logger.Error("budgets cannot begin their new windows; the leader tries again", "budgets", stuck, "error", failed)
			next = nowNs + int64(stuckBudgets)
		}
		return d.orNextTimer(state.TimerBudget, nowNs, next)
	}
}

// turnsOf returns the turns for the windows of one budget that are over.
func (d *Duties) turnsOf(id [16]byte, a *state.Account, nowNs int64) (turns []*op.Turn, err error) {
	r := d.cfg.Store.ResourceIndex().ResourceByID(id)
	if r == nil || a == nil {
		return nil, nil // deleted since the timers were read
	}
	windows, err := BudgetWindows(r.Budget, nowNs)
	if err != nil {
		return nil, fmt.Errorf("budget %s: %w", r.Name, err)
	}
	for _, now := range windows {
		for _, spent := range a.Spent {
			if spent.Window == now.Window && spent.EndNs <= nowNs && now.EndNs > spent.EndNs {
				turns = append(turns, &op.Turn{Id: r.Id, Window: now.Window, SeenEndNs: spent.EndNs, StartNs: now.StartNs, EndNs: now.EndNs})
			}
		}
	}
	return turns, nil
}
