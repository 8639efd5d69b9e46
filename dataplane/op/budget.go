package op

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// A budget is a resource. Its account records the money that was spent, in one window for each limit but the
// per-job limit. For a shared budget the first shard has the windows, and each shard has a slice
// (budget_slices.go). The proposer computes the windows of the calendar, because it knows time zones. This file
// checks and stores the declaration of a budget; budget_check.go applies it to a job; budget_reserve.go moves
// the money of an attempt.

// BudgetTarget is the target of a budget of scope namespace or job, because these scopes name no particular
// target.
const BudgetTarget = "default"

// scopeWords maps the scopes of budgets to the words that clients write.
var scopeWords = map[state.BudgetScope]string{
	state.BudgetScope_BUDGET_SCOPE_NAMESPACE: "namespace",
	state.BudgetScope_BUDGET_SCOPE_QUEUE:     "queue",
	state.BudgetScope_BUDGET_SCOPE_TAG:       "tag",
	state.BudgetScope_BUDGET_SCOPE_KEY:       "key",
	state.BudgetScope_BUDGET_SCOPE_JOB:       "job",
}

// ScopeWord returns the word that clients write for a scope, empty for an unknown scope.
func ScopeWord(s state.BudgetScope) string { return scopeWords[s] }

// ParseScope parses the word that a client wrote for a scope. It returns false for an unknown word.
func ParseScope(word string) (state.BudgetScope, bool) {
	for s, w := range scopeWords {
		if w == word {
			return s, true
		}
	}
	return 0, false
}

// BudgetName builds the name of the budget with a scope and target.
func BudgetName(scope state.BudgetScope, target string) string {
	return scopeWords[scope] + "/" + target
}

// windowWords maps windows to the words in the names of limits.
var windowWords = map[state.Window]string{
	state.Window_WINDOW_DAY:     "daily",
	state.Window_WINDOW_WEEK:    "weekly",
	state.Window_WINDOW_MONTH:   "monthly",
	state.Window_WINDOW_ROLLING: "rolling",
}

// checkBudget checks a budget. For a field that clients set, its errors use the clients' name of the field.
func checkBudget(p *problems, o *PutResource) {
	b := o.GetResource().GetBudget()
	p.only(o, b != nil)
	if b == nil {
		return
	}
	if scopeWords[b.Scope] == "" {
		p.add("scope", errors.New("is none: use namespace, queue, tag, key or job"))
	} else if name := BudgetName(b.Scope, b.Target); o.Resource.Name != name {
		p.add("name", fmt.Errorf("is not that of scope and target, %q", name))
	}
	p.add("target", checkTarget(b.Scope, b.Target))
	if !o.Sent {
		p.add("target", job.CheckReachable(b.Target))
	}
	if len(b.Limits) == 0 && b.PerJobNanoUsd == 0 {
		p.add("daily_usd", errors.New("is missing, and so are weekly_usd, monthly_usd, rolling_usd and per_job_usd: give at least one limit"))
	}
	p.limits(b, o.Windows)
	if b.PerJobNanoUsd != 0 {
		p.add("per_job_usd", checkLimit(b, b.PerJobNanoUsd))
	}
	p.add("timezone", job.CheckText(b.Timezone, MaxTimezone))
	if state.OnExceed_name[int32(b.OnExceed)] == "" {
		p.add("on_exceed", errors.New("is none: use hold, reject, throttle or alert_only"))
	}
	if b.ReserveNanoUsd < 0 || b.ReserveNanoUsd > job.MaxMoney {
		p.add("default_reserve_usd", errAmount)
	}
	p.add("alerts", checkAlerts(b.Alerts))
	if b.RaiseNanoUsd < 0 || b.RaiseNanoUsd > job.MaxMoney {
		p.add("amount_usd", errAmount)
	}
	if (b.RaiseNanoUsd != 0) != (b.RaiseUntilNs > 0) {
		p.add("until", errors.New("goes with amount_usd, and that with it"))
	}
}

var errAmount = fmt.Errorf("must lie between 0 and %s", money.Nano(job.MaxMoney))

func checkTarget(scope state.BudgetScope, target string) error {
	switch scope {
	case state.BudgetScope_BUDGET_SCOPE_NAMESPACE, state.BudgetScope_BUDGET_SCOPE_JOB:
		if target != BudgetTarget {
			return fmt.Errorf("of a budget for a %s is %q", scopeWords[scope], BudgetTarget)
		}
	case state.BudgetScope_BUDGET_SCOPE_QUEUE:
		return job.CheckStoredQueueName(target)
	case state.BudgetScope_BUDGET_SCOPE_TAG:
		if name, _, ok := strings.Cut(target, "="); !ok || name == "" {
			return errors.New("of a budget for a tag is name=value")
		}
	}
	if target == "" {
		return errors.New("is missing")
	}
	return job.CheckText(target, job.MaxBudgetTarget)
}

// limits checks a budget's limits and the calendar windows that the proposer sends with them.
func (p *problems) limits(b *state.Budget, windows []*state.Spent) {
	if b.Scope == state.BudgetScope_BUDGET_SCOPE_JOB && len(b.Limits) > 0 {
		p.add("per_job_usd", errors.New("is the only limit that a budget of scope job may have"))
	}
	seen := map[state.Window]bool{}
	calendars := 0
	for _, l := range b.Limits {
		word := windowWords[l.Window]
		if word == "" || seen[l.Window] {
			p.add("limits", fmt.Errorf("have window %d twice, or it is none", l.Window))
			continue
		}
		seen[l.Window] = true
		p.add(word+"_usd", checkLimit(b, l.LimitNanoUsd))
		if l.Window == state.Window_WINDOW_ROLLING {
			if l.LengthMs < job.MinRollingWindow.Milliseconds() || l.LengthMs > job.MaxRollingWindow.Milliseconds() {
				p.add("rolling_window", fmt.Errorf("must lie between %s and %s", job.MinRollingWindow, job.MaxRollingWindow))
			}
			continue
		}
		calendars++
		if w := windowOf(windows, l.Window); w == nil || w.StartNs < 0 || w.EndNs <= w.StartNs {
			p.add("windows", fmt.Errorf("do not say when the %s one begins and ends", word))
		}
	}
	if len(windows) != calendars {
		p.add("windows", fmt.Errorf("are %d; the budget has %d limits by the calendar", len(windows), calendars))
	}
}

// checkLimit checks one limit. The declared reserve must fit into it, because otherwise no attempt of unknown
// cost could begin.
func checkLimit(b *state.Budget, limit int64) error {
	switch {
	case limit <= 0:
		return errors.New("is not above 0: leave it out for no limit, or pause the queue")
	case limit > job.MaxMoney:
		return errAmount
	case b.ReserveNanoUsd > limit:
		return fmt.Errorf("is less than default_reserve_usd (%s): no job could ever begin", money.Nano(b.ReserveNanoUsd))
	}
	return nil
}

func checkAlerts(percents []uint32) error {
	if len(percents) > job.MaxBudgetAlerts {
		return fmt.Errorf("has %d thresholds; at most %d are allowed", len(percents), job.MaxBudgetAlerts)
	}
	for i, percent := range percents {
		if percent < 1 || percent > job.MaxAlertPercent || i > 0 && percent <= percents[i-1] {
			return fmt.Errorf("are percentages of a limit, from 1 to %d and rising", job.MaxAlertPercent)
		}
	}
	return nil
}

// windowOf returns the window of a kind, nil if there is none.
func windowOf(all []*state.Spent, kind state.Window) *state.Spent {
	for _, w := range all {
		if w.GetWindow() == kind {
			return w
		}
	}
	return nil
}

// putBudget opens a budget's account, or adjusts the account to the changed declaration. Money spent in a
// window that the budget keeps stays spent. A new window begins with nothing spent.
func putBudget(tx *state.Tx, o *PutResource, _ *state.Resource) error {
	r, id := o.Resource, [16]byte(o.Resource.Id)
	a, err := tx.Account(id)
	if err != nil {
		return err
	}
	if a == nil {
		a = &state.Account{Id: r.Id, Name: r.Name}
	}
	if r.Shared() && tx.Shard() != firstShard {
		return putShared(tx, r, a)
	}
	spent := make([]*state.Spent, len(r.Budget.Limits))
	for i, l := range r.Budget.Limits {
		was := windowOf(a.Spent, l.Window)
		if l.Window == state.Window_WINDOW_ROLLING {
			spent[i] = rolling(was, l.LengthMs, tx.ClockNs())
		} else {
			spent[i] = calendar(was, windowOf(o.Windows, l.Window))
		}
		rearm(spent[i], r.Budget, l, tx.ClockNs())
	}
	a.Spent = spent
	if r.Shared() {
		return putShared(tx, r, a)
	}
	return tx.PutAccount(id, a)
}

// rolling returns a rolling window of the given length that keeps the earlier spending.
func rolling(was *state.Spent, lengthMs, nowNs int64) *state.Spent {
	if was == nil {
		return &state.Spent{Window: state.Window_WINDOW_ROLLING, LengthMs: lengthMs, StartNs: nowNs}
	}
	was.Resize(lengthMs, nowNs)
	return was
}

// calendar returns a calendar window that keeps the spending of the stored window, unless the stored window
// is over. If an op has moved the stored window on while the proposer computed, the stored window is newer
// and wins.
func calendar(was, seen *state.Spent) *state.Spent {
	now := &state.Spent{Window: seen.Window, StartNs: seen.StartNs, EndNs: seen.EndNs}
	switch {
	case was == nil || was.EndNs <= now.StartNs:
		return now
	case now.EndNs > was.StartNs:
		was.StartNs, was.EndNs = now.StartNs, now.EndNs // the proposer may have used another time zone
	}
	return was
}

// rearm lets an alert fire again if a changed limit has moved its threshold above the current spending.
func rearm(spent *state.Spent, b *state.Budget, l *state.SpendLimit, nowNs int64) {
	reached := uint32(0)
	for _, percent := range alertThresholds(b) {
		if billing.Reaches(spent.Sums(nowNs).Spent(), b.Limit(l.LimitNanoUsd, nowNs), percent) {
			reached = percent
		}
	}
	spent.Alerted = min(spent.Alerted, reached)
}

// exceeded is the threshold that every alert_only budget has: 100 percent of a limit.
const exceeded = 100

// alertThresholds returns the alert thresholds of a budget in percent, rising. An alert_only budget lets jobs
// exceed its limit, so it always has the threshold at the limit.
func alertThresholds(b *state.Budget) []uint32 {
	if b.OnExceed != state.OnExceed_ON_EXCEED_ALERT_ONLY {
		return b.Alerts
	}
	at, there := slices.BinarySearch(b.Alerts, exceeded)
	if there {
		return b.Alerts
	}
	return slices.Insert(slices.Clone(b.Alerts), at, exceeded)
}

// deletedBudget closes an account. Attempts with money reserved on it go on.
func deletedBudget(tx *state.Tx, was *state.Resource) error {
	return tx.PutAccount([16]byte(was.Id), nil)
}
