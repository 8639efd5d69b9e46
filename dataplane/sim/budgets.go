package sim

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// modelMoney is the part of the model about money. It keeps bookings in lists and adds them up whenever a sum
// is needed. The reserved amount of a budget is the sum over the reservations of running attempts.
type modelMoney struct {
	priceBook    uint32                       // version
	accounts     map[string]*modelAccount     // by the budget's id
	reservations map[job.ID]*modelReservation // of running attempts
	noticed      map[notice]int               // events of the running entry
	broken       error                        // the first attempt that began although a budget had no room for it
}

func newMoney() modelMoney {
	return modelMoney{
		accounts: map[string]*modelAccount{}, reservations: map[job.ID]*modelReservation{}, noticed: map[notice]int{},
	}
}

// modelAccount holds the bookings of one budget.
type modelAccount struct {
	id      []byte
	name    string
	windows []*modelWindow
}

// modelWindow holds the bookings in one window of a budget.
type modelWindow struct {
	kind                     state.Window
	startNs, endNs, lengthMs int64
	alerted                  uint32
	booked                   []booking
}

// booking is one amount that was spent, and its time.
type booking struct{ ns, settled, overrun int64 }

// modelReservation holds the money that a running attempt has reserved on budgets, and what it has spent of
// it.
type modelReservation struct {
	on              []*modelAccount
	reserved, spent int64
}

// notice is an event about a budget, or about a job for which a budget has no room.
type notice struct {
	event state.EventType
	of    [16]byte
}

// putBudget creates the account of a budget, or adjusts the account to a changed budget. Money that was spent
// in a window stays spent.
func (m *model) putBudget(r *state.Resource, seen []*state.Spent) {
	a := m.accounts[string(r.GetId())]
	if a == nil {
		a = &modelAccount{id: r.GetId(), name: r.GetName()}
		m.accounts[string(r.GetId())] = a
	}
	// For each limit, find its former window and the window that the proposer has computed.
	before := a.windows
	a.windows = nil
	for _, l := range r.GetBudget().GetLimits() {
		var w *modelWindow
		for _, old := range before {
			if old.kind == l.GetWindow() {
				w = old
			}
		}
		var now *state.Spent
		for _, s := range seen {
			if s.GetWindow() == l.GetWindow() {
				now = s
			}
		}
		// The proposer computes no window for a rolling limit. A calendar window does not move back.
		switch {
		case now == nil && w == nil:
			w = &modelWindow{kind: l.GetWindow(), startNs: m.clockNs, lengthMs: l.GetLengthMs()}
		case now == nil:
			w.resize(l.GetLengthMs(), m.clockNs)
		case w == nil || w.endNs <= now.GetStartNs(): // there is no old window, or it is over
			w = &modelWindow{kind: l.GetWindow(), startNs: now.GetStartNs(), endNs: now.GetEndNs()}
		case now.GetEndNs() > w.startNs:
			w.startNs, w.endNs = now.GetStartNs(), now.GetEndNs()
		}
		// Alerts of thresholds that the changed limit has not reached may fire again.
		w.alerted = min(w.alerted, slices.Max(append(w.reached(r.GetBudget(), l, m.clockNs), 0)))
		a.windows = append(a.windows, w)
	}
}

// slice returns the number of a rolling window's slice that contains a time. A slice is 1/64 of the window's
// length, rounded up.
func (w *modelWindow) slice(ns int64) int64 { return ns / ((w.lengthMs*1e6 + 63) / 64) }

// sums adds up the bookings in the window. For a rolling window, the sums include the whole slice in which
// the window begins.
func (w *modelWindow) sums(nowNs int64) (settled, overrun int64) {
	for _, b := range w.booked {
		if w.kind != state.Window_WINDOW_ROLLING || w.slice(nowNs)-w.slice(b.ns) <= 64 {
			settled, overrun = settled+b.settled, overrun+b.overrun
		}
	}
	return settled, overrun
}

// resize changes the length of a rolling window. The store remembers bookings by slices, so each booking
// counts as made at the latest time of its slice.
func (w *modelWindow) resize(lengthMs, nowNs int64) {
	if lengthMs == w.lengthMs {
		return
	}
	var kept []booking
	for _, b := range w.booked {
		newest := w.booked[len(w.booked)-1]
		if w.slice(newest.ns)-w.slice(b.ns) <= 64 {
			b.ns = min((w.slice(b.ns)+1)*((w.lengthMs*1e6+63)/64)-1, nowNs)
			kept = append(kept, b)
		}
	}
	w.booked, w.lengthMs = kept, lengthMs
}

// raised returns a limit, with the budget's raise while that lasts.
func raised(b *state.Budget, limit, nowNs int64) int64 {
	if nowNs < b.GetRaiseUntilNs() {
		return limit + b.GetRaiseNanoUsd()
	}
	return limit
}

// thresholds returns the percentages at which a budget alerts. A budget with on_exceed alert_only also alerts
// at 100 %.
func thresholds(b *state.Budget) []uint32 {
	all := slices.Clone(b.GetAlerts())
	if b.GetOnExceed() == state.OnExceed_ON_EXCEED_ALERT_ONLY {
		all = append(all, 100)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reached returns the thresholds that the spending in a window has reached.
func (w *modelWindow) reached(b *state.Budget, l *state.SpendLimit, nowNs int64) (all []uint32) {
	settled, overrun := w.sums(nowNs)
	for _, percent := range thresholds(b) {
		if (settled+overrun)*100 >= raised(b, l.GetLimitNanoUsd(), nowNs)*int64(percent) {
			all = append(all, percent)
		}
	}
	return all
}

// budget returns the declaration of an account's budget, or nil if the budget is gone.
func (m *model) budget(a *modelAccount) *state.Budget {
	if m.accounts[string(a.id)] != a {
		return nil
	}
	return m.resources[modelName{state.ResourceKind_RESOURCE_KIND_BUDGET, a.name}].GetBudget()
}

// book books spending in every window, and notes the alerts of the thresholds that it reaches.
func (m *model) book(a *modelAccount, settled, overrun int64) {
	b := m.budget(a)
	if b == nil || settled == 0 && overrun == 0 {
		return
	}
	for i, w := range a.windows {
		w.booked = append(w.booked, booking{m.clockNs, settled, overrun})
		if w.kind == state.Window_WINDOW_ROLLING && m.clockNs-w.startNs >= w.lengthMs*1e6 {
			w.startNs, w.alerted = m.clockNs, 0
		}
		for _, percent := range w.reached(b, b.GetLimits()[i], m.clockNs) {
			if percent <= w.alerted {
				continue
			}
			w.alerted = percent
			if slices.Contains(b.GetAlerts(), percent) {
				m.noticed[notice{state.EventType_EVENT_BUDGET_ALERT, [16]byte(a.id)}]++
			}
			if percent == 100 && b.GetOnExceed() == state.OnExceed_ON_EXCEED_ALERT_ONLY {
				m.noticed[notice{state.EventType_EVENT_BUDGET_EXCEEDED, [16]byte(a.id)}]++
			}
		}
	}
}

// reserved returns the amount that running attempts have reserved on a budget.
func (m *model) reserved(a *modelAccount) (sum int64) {
	for _, c := range m.reservations {
		if slices.Contains(c.on, a) {
			sum += c.reserved
		}
	}
	return sum
}

// budgetsOf returns the budgets that apply to a job, in the order in which they decide.
func (m *model) budgetsOf(j *modelJob) (all []*modelAccount) {
	names := []string{"namespace/default", "queue/" + j.queue}
	for _, tag := range j.tags {
		names = append(names, "tag/"+tag.GetName()+"="+tag.GetValue())
	}
	if j.fairnessKey != "" {
		names = append(names, "key/"+j.fairnessKey)
	}
	for _, name := range append(names, "job/default") {
		if r := m.resources[modelName{state.ResourceKind_RESOURCE_KIND_BUDGET, name}]; r != nil {
			all = append(all, m.accounts[string(r.GetId())])
		}
	}
	return all
}

// expected returns the amount to reserve for an attempt.
func (m *model) expected(j *modelJob) (most int64) {
	if j.agent.estimate > 0 {
		return j.agent.estimate
	}
	if left := j.agent.bounds.GetMaxCostNanoUsd() - j.spent(); j.agent.bounds.GetMaxCostNanoUsd() > 0 && left > 0 {
		return left
	}
	return m.defaultReserve(j)
}

// defaultReserve returns the reserve for an attempt of a job that does not estimate its cost: the highest
// that a budget declares, or that is derived for a budget that declares none. A derived amount fits into each
// limit.
func (m *model) defaultReserve(j *modelJob) (declared int64) {
	// Collect the declared reserve, the derived ones, and the limits into which a derived one must fit.
	var derived, guess []int64
	var limits, fits []int64
	for _, a := range m.budgetsOf(j) {
		b := m.budget(a)
		left := b.GetPerJobNanoUsd() - j.costNano
		for _, l := range b.GetLimits() {
			limits = append(limits, l.GetLimitNanoUsd())
			if b.GetOnExceed() != state.OnExceed_ON_EXCEED_ALERT_ONLY {
				fits = append(fits, l.GetLimitNanoUsd())
			}
		}
		if left > 0 && b.GetOnExceed() != state.OnExceed_ON_EXCEED_ALERT_ONLY {
			fits = append(fits, left)
		}
		switch {
		case b.GetReserveNanoUsd() > 0:
			declared = max(declared, b.GetReserveNanoUsd())
		case b.GetScope() == state.BudgetScope_BUDGET_SCOPE_JOB:
		case left > 0:
			derived = append(derived, left)
		case len(b.GetLimits()) > 0:
			guess = append(guess, m.queue(j.queue).expectedCost)
		}
	}
	// A guess is at least a hundredth of the lowest limit, and not 0.
	if len(guess) > 0 {
		derived = append(derived, guess[0], slices.Min(limits)/100, 1)
	}
	if len(derived) == 0 {
		return declared
	}
	return max(declared, slices.Min(append(fits, slices.Max(derived))))
}

// learnCost moves a queue's expected cost of an attempt an eighth of the way to the cost of the attempt that
// ends. It ignores an attempt without cost if the attempt did not complete, or if no attempt has had a cost
// yet.
func (m *model) learnCost(j *modelJob, completed bool) {
	q, cost := m.queue(j.queue), j.attemptCost
	running := j.running
	j.running, j.attemptCost = false, 0
	switch {
	case !running, cost == 0 && (!completed || q.expectedCost == 0):
	case q.expectedCost == 0:
		q.expectedCost = cost
	default:
		q.expectedCost = max(q.expectedCost+(cost-q.expectedCost)/8, 1)
	}
}

// short reports whether a budget has no room for an amount, and whether it never will. The job has cost
// jobCost without that amount.
func (m *model) short(a *modelAccount, jobCost, amount int64) (short, forever bool) {
	b := m.budget(a)
	lacks := func(available int64) bool { return available <= 0 || available < amount }
	if b.GetPerJobNanoUsd() > 0 && lacks(raised(b, b.GetPerJobNanoUsd(), m.clockNs)-jobCost) {
		return true, true
	}
	for i, w := range a.windows {
		settled, overrun := w.sums(m.clockNs)
		limit := raised(b, b.GetLimits()[i].GetLimitNanoUsd(), m.clockNs)
		if lacks(limit - settled - overrun - m.reserved(a)) {
			short, forever = true, forever || amount > limit
		}
	}
	return short, forever
}

// decideBudgets decides what to do with a job for which a budget has no room.
func (m *model) decideBudgets(j *modelJob) verdict {
	amount := m.expected(j)
	for _, a := range m.budgetsOf(j) {
		on := m.budget(a).GetOnExceed()
		short, forever := m.short(a, j.costNano, amount)
		switch {
		case !short, on == state.OnExceed_ON_EXCEED_ALERT_ONLY:
		case on == state.OnExceed_ON_EXCEED_REJECT:
			return verdict{to: job.Dead, by: a.name}
		case on == state.OnExceed_ON_EXCEED_THROTTLE && !forever:
			return verdict{to: job.Pending, gate: job.Gate_GATE_BUDGET, by: a.name}
		default:
			return verdict{to: job.Held, hold: job.Hold_HOLD_BUDGET, by: a.name}
		}
	}
	return verdict{}
}

// anyReason stands for an error text that the model does not predict.
const anyReason = "\x00any reason"

// reserve reserves the money of an attempt that begins, and notes a fault if a budget has no room for it.
func (m *model) reserve(j *modelJob) {
	j.running, j.attemptCost = true, 0
	on := m.budgetsOf(j)
	if len(on) == 0 {
		return
	}
	m.reservations[j.id] = &modelReservation{on: on, reserved: m.expected(j)}
	for _, a := range on {
		b := m.budget(a)
		for i, w := range a.windows {
			settled, overrun := w.sums(m.clockNs)
			limit := raised(b, b.GetLimits()[i].GetLimitNanoUsd(), m.clockNs)
			if sum := settled + overrun + m.reserved(a); sum > limit && b.GetOnExceed() != state.OnExceed_ON_EXCEED_ALERT_ONLY && m.broken == nil {
				m.broken = fmt.Errorf("job %s began, and budget %s came to %d of %d in window %d", j.id, a.name, sum, limit, w.kind)
			}
		}
	}
}

// spend notes a reported cost of a running attempt. The cost is overrun on a budget on which the attempt has
// no reservation.
func (m *model) spend(j *modelJob, cost int64) {
	j.attemptCost += cost
	c := m.reservations[j.id]
	if c != nil {
		c.spent += cost
	}
	for _, a := range m.budgetsOf(j) {
		if c == nil || !slices.Contains(c.on, a) {
			m.book(a, 0, cost)
		}
	}
}

// topUp reserves more for an attempt that has cost more than its reserve. If a budget has no room, it books
// the excess as overrun and returns true, so that the worker is notified. It also returns true for an attempt
// that has used up its reserve and can get no more.
func (m *model) topUp(j *modelJob) (over bool) {
	on := m.budgetsOf(j)
	if len(on) == 0 {
		return false
	}
	c := m.reservations[j.id]
	if c == nil {
		c = &modelReservation{}
	}
	// Each budget must have room for the excess.
	extra := max(c.spent-c.reserved, 0)
	for _, a := range on {
		need, holds := int64(0), slices.Contains(c.on, a)
		if holds && c.spent < c.reserved || m.budget(a).GetOnExceed() == state.OnExceed_ON_EXCEED_ALERT_ONLY {
			continue
		}
		if holds {
			need = extra
		}
		short, _ := m.short(a, j.costNano-need, need)
		over = over || short
	}
	// Reserve the excess, or book it as overrun.
	switch {
	case extra == 0:
	case over:
		c.spent -= extra
		for _, a := range c.on {
			m.book(a, 0, extra)
		}
	default:
		c.reserved += extra
	}
	return over
}

// settleBudgets books the cost of an attempt that ends, and releases its reserve.
func (m *model) settleBudgets(j *modelJob) {
	c := m.reservations[j.id]
	if c == nil {
		return
	}
	delete(m.reservations, j.id)
	for _, a := range c.on {
		m.book(a, min(c.spent, c.reserved), max(c.spent-c.reserved, 0))
	}
}

func (m *model) turnBudgets(o *op.TurnBudgets) outcome {
	result := &op.TurnBudgetsResult{}
	for _, t := range o.GetTurns() {
		a := m.accounts[string(t.GetId())]
		if a == nil {
			continue
		}
		for _, w := range a.windows {
			if w.kind != t.GetWindow() || w.endNs != t.GetSeenEndNs() || m.clockNs < w.endNs {
				continue
			}
			if t.GetStartNs() >= w.endNs {
				w.booked, w.alerted = nil, 0
			}
			w.startNs, w.endNs = t.GetStartNs(), t.GetEndNs()
			result.Turned++
		}
	}
	return outcome{result: result}
}

// stillShort reports whether a budget would hold a job again.
func (m *model) stillShort(j *modelJob) bool {
	v := m.decideBudgets(j)
	return v != verdict{} && v.to != job.Pending
}
