package duties

import (
	"context"
	"fmt"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// stuckBudgets is when budgets are looked at again whose window is over and could not
// be turned: their zone is not known here. Until then what was spent in the old window
// counts.
const stuckBudgets = time.Second

// periods are the windows of budgets that the calendar has.
var periods = map[state.Window]billing.Period{
	state.Window_WINDOW_DAY:   billing.Day,
	state.Window_WINDOW_WEEK:  billing.Week,
	state.Window_WINDOW_MONTH: billing.Month,
}

// BudgetWindows are a budget's windows by the calendar at nowNs, one for each of its
// limits that has one.
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

// turnBudgets begins the new windows of budgets whose old ones are over.
func turnBudgets(ctx context.Context, d *Duties) (int64, error) {
	for {
		nowNs := d.cfg.NowNs()
		ids, err := d.cfg.Store.Due(state.TimerBudget, nowNs, job.MaxDutyItems/len(periods))
		if err != nil {
			return 0, fmt.Errorf("read the timers of budgets: %w", err)
		}
		next := never
		var turns []*op.Turn
		for _, id := range ids {
			more, err := d.turnsOf(id, nowNs)
			if err != nil {
				d.cfg.Logger.Error("a budget's window cannot be turned and is tried again", "error", err)
				next = nowNs + int64(stuckBudgets)
			}
			turns = append(turns, more...)
		}
		if len(turns) == 0 {
			return d.orNextTimer(state.TimerBudget, nowNs, next)
		}
		if err := d.cfg.Propose(ctx, &op.TurnBudgets{Meta: &op.Meta{Principal: "duty"}, Turns: turns}); err != nil {
			return 0, err
		}
	}
}

// turnsOf are the windows of one budget that are over.
func (d *Duties) turnsOf(id [16]byte, nowNs int64) (turns []*op.Turn, err error) {
	r := d.cfg.Store.Book().ResourceByID(id)
	a, err := d.cfg.Store.Account(id)
	if err != nil || r == nil || a == nil {
		return nil, err // deleted since the timers were read
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
