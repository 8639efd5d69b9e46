package op_test

import (
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// The model of budgets: plain sums over lists of all bookings.

// applying returns the budgets that apply to a job.
func (s *budgetSim) applying(j *simJob) (all []*simBudget) {
	for _, c := range []struct {
		name    string
		applies bool
	}{{"namespace/default", true}, {"queue/" + j.queue, true}, {"tag/t=x", j.tagged}, {"key/k", j.key != ""}, {"job/default", true}} {
		if b := s.budgets[c.name]; b != nil && c.applies {
			all = append(all, b)
		}
	}
	return all
}

// amount returns the amount reserved for an attempt: the job's estimate, else the most of the amounts that
// its budgets declare or derive. A derived amount fits into every limit that keeps back jobs.
func (s *budgetSim) amount(j *simJob) (declared int64) {
	if j.estimate > 0 {
		return j.estimate
	}
	all, fit := []int64{}, []int64{} // limits
	derived, guessed := int64(0), false
	for _, b := range s.applying(j) {
		left := b.spec.PerJobNanoUsd - j.cost
		for _, l := range b.spec.Limits {
			all = append(all, l.LimitNanoUsd)
		}
		if b.spec.OnExceed != state.OnExceed_ON_EXCEED_ALERT_ONLY {
			for _, l := range b.spec.Limits {
				fit = append(fit, l.LimitNanoUsd)
			}
			if left > 0 {
				fit = append(fit, left)
			}
		}
		switch {
		case b.spec.ReserveNanoUsd > 0:
			declared = max(declared, b.spec.ReserveNanoUsd)
		case b.name == "job/default":
		case left > 0:
			derived = max(derived, left)
		case len(b.spec.Limits) > 0:
			guessed = true
		}
	}
	if guessed {
		v := s.store.Snapshot()
		defer v.Close()
		q, err := v.Queue(j.queue)
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		derived = max(derived, q.GetExpectedCostNanoUsd(), slices.Min(all)/100, 1)
	}
	return max(declared, slices.Min(append(fit, derived)))
}

// begun records that an attempt has begun. There must have been room for it.
func (s *budgetSim) begun(id job.ID, token []byte) {
	s.t.Helper()
	j := s.jobs[id]
	budgets := s.applying(j)
	amount := s.amount(j)
	if len(budgets) == 0 {
		amount = 0
	}
	for _, b := range budgets {
		s.mustFit(b, j.cost, amount)
	}
	j.token, j.held, j.reserved, j.spent = token, budgets, amount, 0
}

// mustFit fails if a budget has no room for an amount, unless the budget is alert_only.
func (s *budgetSim) mustFit(b *simBudget, jobCost, amount int64) {
	s.t.Helper()
	if b.spec.OnExceed == state.OnExceed_ON_EXCEED_ALERT_ONLY {
		return
	}
	raise := int64(0)
	if s.clockNs < b.spec.RaiseUntilNs {
		raise = b.spec.RaiseNanoUsd
	}
	if most := b.spec.PerJobNanoUsd; most != 0 && jobCost+amount > most+raise {
		s.t.Fatalf("%s: a job has cost %d, and %d more were let go of %d + %d", b.name, jobCost, amount, most, raise)
	}
	reserved := s.reservedOn(b)
	for _, l := range b.spec.Limits {
		settled, overrun := s.least(b, l)
		if settled+overrun+reserved+amount > l.LimitNanoUsd+raise {
			s.t.Fatalf("%s: settled %d + overrun %d + reserved %d + %d > %d + %d in window %d", b.name, settled, overrun, reserved, amount, l.LimitNanoUsd, raise, l.Window)
		}
	}
}

// kept returns the jobs that a budget holds or parks.
func (s *budgetSim) kept() map[job.ID]bool {
	kept := map[job.ID]bool{}
	for _, id := range s.order {
		j, err := s.store.Job(id)
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		if j != nil && (op.AtGate(j) || j.State == job.Held && j.Detail.GetHold() == job.Hold_HOLD_BUDGET) {
			kept[id] = true
		}
	}
	return kept
}

// keptForAReason fails if a fetch has kept back a job for which all budgets have room. The jobs that the same
// fetch leased afterwards can only have left less room.
func (s *budgetSim) keptForAReason() {
	s.t.Helper()
	for id := range s.kept() {
		if s.keep[id] {
			continue
		}
		j, full, amount := s.jobs[id], false, s.amount(s.jobs[id])
		for _, b := range s.applying(j) {
			full = full || b.spec.OnExceed != state.OnExceed_ON_EXCEED_ALERT_ONLY && s.mayLack(b, j.cost, amount)
		}
		if !full {
			s.t.Fatalf("job %s was kept, and all its budgets have room for %d", id, amount)
		}
		s.keptRightly(id, amount)
	}
}

// keptRightly fails if a job waits for a budget that will never have room for it or does not let jobs wait,
// and if a job is held that should wait.
func (s *budgetSim) keptRightly(id job.ID, amount int64) {
	s.t.Helper()
	j, err := s.store.Job(id)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	name, waits := j.Detail.GetHoldBy(), op.AtGate(j)
	if waits {
		name = j.Detail.GetGateName()
	}
	b := s.budgets[name]
	raise := int64(0)
	if s.clockNs < b.spec.RaiseUntilNs {
		raise = b.spec.RaiseNanoUsd
	}
	most := b.spec.PerJobNanoUsd
	forever := most != 0 && (most+raise <= s.jobs[id].cost || most+raise-s.jobs[id].cost < amount)
	for _, l := range b.spec.Limits {
		forever = forever || amount > l.LimitNanoUsd+raise
	}
	if want := b.spec.OnExceed == state.OnExceed_ON_EXCEED_THROTTLE && !forever; waits != want {
		s.t.Fatalf("job %s that may cost %d waits for %s: %t, want %t", id, amount, name, waits, want)
	}
}

// waitForAReason fails if a job still waits after its gate was tried although all budgets have room for it.
func (s *budgetSim) waitForAReason(o *op.OpenGate) {
	s.t.Helper()
	for _, b := range o.JobIds {
		id := job.ID(b)
		j, err := s.store.Job(id)
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		if j == nil || !op.AtGate(j) {
			continue
		}
		m, lacks := s.jobs[id], false
		amount := s.amount(m)
		for _, b := range s.applying(m) {
			lacks = lacks || b.spec.OnExceed != state.OnExceed_ON_EXCEED_ALERT_ONLY && s.mayLack(b, m.cost, amount)
		}
		if !lacks {
			s.t.Fatalf("job %s waits, and all its budgets have room for %d", id, amount)
		}
	}
}

// mayLack reports whether a budget may have no room for an amount if its rolling window remembers bookings
// for as long as it is allowed to.
func (s *budgetSim) mayLack(b *simBudget, jobCost, amount int64) bool {
	return s.lacks(b, jobCost, amount, func(l *state.SpendLimit) (settled, overrun int64) {
		lengthNs := l.LengthMs * int64(time.Millisecond)
		return b.sum(l, s.clockNs-lengthNs-lengthNs/16-b.slackNs-1000, true)
	})
}

// mustLack reports whether a budget certainly has no room for an amount.
func (s *budgetSim) mustLack(b *simBudget, jobCost, amount int64) bool {
	return s.lacks(b, jobCost, amount, func(l *state.SpendLimit) (settled, overrun int64) { return s.least(b, l) })
}

func (s *budgetSim) lacks(b *simBudget, jobCost, amount int64, spent func(*state.SpendLimit) (settled, overrun int64)) bool {
	raise := int64(0)
	if s.clockNs < b.spec.RaiseUntilNs {
		raise = b.spec.RaiseNanoUsd
	}
	lacks := func(available int64) bool { return available <= 0 || available < amount }
	if most := b.spec.PerJobNanoUsd; most != 0 && lacks(most+raise-jobCost) {
		return true
	}
	for _, l := range b.spec.Limits {
		settled, overrun := spent(l)
		if lacks(l.LimitNanoUsd + raise - settled - overrun - s.reservedOn(b)) {
			return true
		}
	}
	return false
}

// reservedOn returns the amount that running attempts have reserved on a budget.
func (s *budgetSim) reservedOn(b *simBudget) (sum int64) {
	for _, j := range s.jobs {
		if j.token != nil && j.holds(b) {
			sum += j.reserved
		}
	}
	return sum
}

func (j *simJob) holds(b *simBudget) bool {
	for _, held := range j.held {
		if held == b {
			return true
		}
	}
	return false
}

// least returns the amount that was certainly spent in the present window.
func (s *budgetSim) least(b *simBudget, l *state.SpendLimit) (settled, overrun int64) {
	return b.sum(l, s.clockNs-l.LengthMs*int64(time.Millisecond), false)
}

// sum adds up the bookings in the window of a limit. For a rolling window it takes those after afterNs, and
// the vague ones only if vague is true.
func (b *simBudget) sum(l *state.SpendLimit, afterNs int64, vague bool) (settled, overrun int64) {
	from := 0
	if l.Window != state.Window_WINDOW_ROLLING {
		from, afterNs = b.windows[l.Window].from, 0
	} else {
		from = b.windows[l.Window].from
	}
	for _, k := range b.booked[from:] {
		if k.ns > afterNs && (vague || !k.vague || l.Window != state.Window_WINDOW_ROLLING) {
			settled, overrun = settled+k.settled, overrun+k.overrun
		}
	}
	return settled, overrun
}

// reported records an accepted report, and the end of the attempt that it came with. A report for a job that
// does not run is a repeat, which changes nothing.
func (s *budgetSim) reported(proof *op.LeaseProof, usage *job.Usage, ends bool) {
	j := s.jobs[job.ID(proof.Id)]
	if j == nil || j.token == nil {
		return
	}
	cost := usage.GetCostNanoUsd()
	j.cost += cost
	if len(j.held) > 0 {
		j.spent += cost
	}
	for _, b := range s.applying(j) {
		if !j.holds(b) && cost > 0 {
			b.booked = append(b.booked, booking{ns: s.clockNs, overrun: cost})
		}
	}
	if ends {
		s.settle(j)
	}
}

// toppedUp records the result of a heartbeat after which an attempt has cost more than its reservation.
func (s *budgetSim) toppedUp(j *simJob, over bool) {
	s.t.Helper()
	extra := max(j.spent-j.reserved, 0)
	must, may := false, false
	for _, b := range s.applying(j) {
		need := int64(0)
		if j.holds(b) {
			need = extra
		}
		if b.spec.OnExceed == state.OnExceed_ON_EXCEED_ALERT_ONLY || j.holds(b) && j.spent < j.reserved {
			continue
		}
		must, may = must || s.mustLack(b, j.cost-need, need), may || s.mayLack(b, j.cost-need, need)
	}
	if over && !may || must && !over {
		s.t.Fatalf("%d of %d are spent, over budget: %t, which must be %t and may be %t", j.spent, j.reserved, over, must, may)
	}
	if extra == 0 || len(s.applying(j)) == 0 {
		return
	}
	if over {
		j.spent -= extra
		s.bookOn(j, booking{ns: s.clockNs, overrun: extra})
		return
	}
	for _, b := range j.held {
		if s.budgets[b.name] == b {
			s.mustFit(b, j.cost-extra, extra)
		}
	}
	j.reserved += extra
}

// settle ends an attempt.
func (s *budgetSim) settle(j *simJob) {
	settled := min(j.spent, j.reserved)
	if j.spent > 0 {
		s.bookOn(j, booking{ns: s.clockNs, settled: settled, overrun: j.spent - settled})
	}
	j.token, j.held, j.reserved, j.spent = nil, nil, 0, 0
}

func (s *budgetSim) bookOn(j *simJob, k booking) {
	for _, b := range j.held {
		b.booked = append(b.booked, k)
	}
}

// put records a budget, or its change.
func (s *budgetSim) put(o *op.PutResource) {
	b := s.budgets[o.Resource.Name]
	if b == nil {
		b = &simBudget{name: o.Resource.Name, windows: map[state.Window]*simWindow{}}
		s.budgets[b.name] = b
	}
	was := b.spec
	b.spec = o.Resource.Budget
	windows := map[state.Window]*simWindow{}
	for _, l := range b.spec.Limits {
		w := b.windows[l.Window]
		if w == nil {
			w = &simWindow{from: len(b.booked)}
		}
		if l.Window == state.Window_WINDOW_ROLLING {
			b.resize(was, l)
		}
		for _, now := range o.Windows {
			if now.Window == l.Window {
				if w.endNs != 0 && w.endNs <= now.StartNs {
					w.from = len(b.booked)
				}
				w.startNs, w.endNs = now.StartNs, now.EndNs
			}
		}
		windows[l.Window] = w
	}
	b.windows = windows
}

// resize records another length of the rolling window. The window may forget bookings that had left the old
// one, and may count remembered ones for longer.
func (b *simBudget) resize(was *state.Budget, l *state.SpendLimit) {
	for _, old := range was.GetLimits() {
		if old.Window == l.Window && old.LengthMs != l.LengthMs {
			for i := range b.booked {
				b.booked[i].vague = true
			}
			b.slackNs += 2 * old.LengthMs * int64(time.Millisecond) / 64
		}
	}
}

// turned records the windows that were turned.
func (s *budgetSim) turned(o *op.TurnBudgets) {
	for _, t := range o.Turns {
		for _, b := range s.budgets {
			r := s.store.ResourceIndex().Resource(state.ResourceKind_RESOURCE_KIND_BUDGET, b.name)
			if r == nil || string(r.Id) != string(t.Id) {
				continue
			}
			if w := b.windows[t.Window]; w != nil && w.endNs == t.SeenEndNs && s.clockNs >= w.endNs {
				w.startNs, w.endNs, w.from = t.StartNs, t.EndNs, len(b.booked)
			}
		}
	}
}

// compare checks the accounts against the model, and the reserved amounts also against the reservations of
// running jobs.
func (s *budgetSim) compare() {
	s.t.Helper()
	resources := s.store.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_BUDGET)
	if len(resources) != len(s.budgets) {
		s.t.Fatalf("%d budgets, want %d", len(resources), len(s.budgets))
	}
	claimed := s.claimed()
	for _, r := range resources {
		b, a := s.budgets[r.Name], s.account(r)
		if want := s.reservedOn(b); a.ReservedNanoUsd != want || claimed[string(r.Id)] != want {
			s.t.Fatalf("%s: reserved %d, jobs claim %d, want %d", r.Name, a.ReservedNanoUsd, claimed[string(r.Id)], want)
		}
		for i, l := range r.Budget.Limits {
			sums := a.Spent[i].Sums(s.clockNs)
			settled, overrun := s.least(b, l)
			mostSettled, mostOverrun := settled, overrun
			if l.Window == state.Window_WINDOW_ROLLING {
				lengthNs := l.LengthMs * int64(time.Millisecond)
				mostSettled, mostOverrun = b.sum(l, s.clockNs-lengthNs-lengthNs/16-b.slackNs-1000, true)
			}
			if got := int64(sums.Settled); got < settled || got > mostSettled {
				s.t.Fatalf("%s, window %d: settled %d, want %d to %d", r.Name, l.Window, got, settled, mostSettled)
			}
			if got := int64(sums.Overrun); got < overrun || got > mostOverrun {
				s.t.Fatalf("%s, window %d: overrun %d, want %d to %d", r.Name, l.Window, got, overrun, mostOverrun)
			}
		}
	}
}

// claimed returns the amount that running jobs say they have reserved, by budget.
func (s *budgetSim) claimed() map[string]int64 {
	v := s.store.Snapshot()
	defer v.Close()
	claimed := map[string]int64{}
	for j, err := range v.Jobs() {
		if err != nil {
			s.t.Fatalf("%v", err)
		}
		for _, id := range j.Lease.GetReservation().GetBudgetIds() {
			if j.State != job.Active {
				s.t.Fatalf("job %s is %s and has a reservation", job.ID(j.Id), j.State.Word())
			}
			claimed[string(id)] += j.Lease.Reservation.ReservedNanoUsd
		}
	}
	return claimed
}
