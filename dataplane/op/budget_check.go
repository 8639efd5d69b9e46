package op

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Before an attempt begins, its expected cost must fit into every budget that applies to the job and does
// more than alert. The budgets of the namespace, of the job's queue, of its tags and of its fairness key
// apply, and the budget that limits each job by itself. The first budget without room decides what happens to
// the job. Package billing has the arithmetic.

// budgetsOf returns the budgets that apply to a job, in the order in which they decide.
func budgetsOf(resources *state.ResourceIndex, j *job.Job) []*state.Resource {
	if len(resources.Resources(state.ResourceKind_RESOURCE_KIND_BUDGET)) == 0 {
		return nil
	}
	var all []*state.Resource
	add := func(scope state.BudgetScope, target string) {
		if r := resources.BudgetFor(scope, target); r != nil {
			all = append(all, r)
		}
	}
	add(state.BudgetScope_BUDGET_SCOPE_NAMESPACE, BudgetTarget)
	add(state.BudgetScope_BUDGET_SCOPE_QUEUE, j.Queue)
	for _, tag := range j.Tags {
		add(state.BudgetScope_BUDGET_SCOPE_TAG, tag.Name+"="+tag.Value)
	}
	if key := j.FairnessKey; key != "" {
		add(state.BudgetScope_BUDGET_SCOPE_KEY, key)
	}
	add(state.BudgetScope_BUDGET_SCOPE_JOB, BudgetTarget)
	return all
}

// expectedCost returns the amount to reserve for an attempt: the client's estimate if there is one, else the
// rest of the agent's max_cost if it is above 0, else the amount that the budgets give (reserveOf). learned is
// the moving average of the cost of the queue's attempts.
func expectedCost(j *job.Job, budgets []*state.Resource, learned int64) money.Nano {
	if estimate := j.Options.GetCostEstimateNanoUsd(); estimate > 0 {
		return money.Nano(estimate)
	}
	if most := j.Options.GetAgent().GetMaxCostNanoUsd(); most > 0 {
		if left := most - j.AgentCost(); left > 0 {
			return money.Nano(left)
		}
	}
	return money.Nano(reserveOf(budgets, j.Usage.GetCostNanoUsd(), learned))
}

// reserveOf returns the amount that budgets reserve for an attempt of a job that has cost jobCost so far. The
// amount is the same on all budgets: the larger of the largest declared reserve and the amount derived for
// the budgets that declare none. If the derived amount is an estimate, it is at least the floor of the
// smallest limit among the budgets (state.ReserveFloorOf). But the derived amount never exceeds a limit of a
// budget that does more than alert, or the rest of the budget's per-job limit, because otherwise the floor of a
// large budget would keep back all jobs of a small one.
func reserveOf(budgets []*state.Resource, jobCost, learned int64) int64 {
	declared, derived, estimated := int64(0), int64(0), false
	smallest, most := int64(math.MaxInt64), int64(math.MaxInt64)
	for _, r := range budgets {
		b := r.Budget
		binds := b.OnExceed != state.OnExceed_ON_EXCEED_ALERT_ONLY
		if limit := b.SmallestLimit(); limit > 0 {
			smallest = min(smallest, limit)
			if binds {
				most = min(most, limit)
			}
		}
		if left := b.PerJobNanoUsd - jobCost; left > 0 && binds {
			most = min(most, left)
		}
		switch amount, from := b.Reserve(jobCost, learned); from {
		case state.ReserveDeclared:
			declared = max(declared, amount)
		case state.ReservePerJob:
			derived = max(derived, amount)
		case state.ReserveEstimate, state.ReserveFloor:
			estimated = true
		}
	}
	if estimated {
		derived = max(derived, learned, state.ReserveFloorOf(smallest))
	}
	return max(declared, min(derived, most))
}

// checkBudgets holds, rejects or parks a job if a budget that does more than alert has no room for it.
func checkBudgets(g DecisionState, j *job.Job) (Verdict, error) {
	budgets := budgetsOf(g.ResourceIndex(), j)
	if len(budgets) == 0 {
		return Verdict{}, nil
	}
	amount := expectedCost(j, budgets, g.Queue(j.Queue).GetExpectedCostNanoUsd())
	for _, r := range budgets {
		if r.Budget.OnExceed == state.OnExceed_ON_EXCEED_ALERT_ONLY {
			continue
		}
		a, err := accountOf(g, r)
		if err != nil {
			return Verdict{}, err
		}
		if short := shortOn(r.Budget, a, money.Nano(j.Usage.GetCostNanoUsd()), amount, g.ClockNs()); short != nil {
			return short.verdict(r), nil
		}
	}
	return Verdict{}, nil
}

// accountOf reads a budget's account. It fails if the account is missing, because every budget has one.
func accountOf(g DecisionState, r *state.Resource) (*state.Account, error) {
	a, err := g.Account([16]byte(r.Id))
	if err == nil && (a == nil || len(a.Spent) != len(r.Budget.Limits) && a.Slice == nil) {
		err = fmt.Errorf("budget %q has no account with its %d limits", r.Name, len(r.Budget.Limits))
	}
	return a, err
}

// shortage describes why a budget has no room.
type shortage struct {
	limit     string // its name
	window    state.Window
	most      money.Nano
	available money.Nano
	amount    money.Nano
	untilNs   int64 // the earliest time with room if nothing else changes; 0 = unknown
	forever   bool  // waiting does not help
	// Only for a budget that shards share: the first shard has not yet said whether there is room.
	unknown bool
	asks    money.Nano // the amount to ask the first shard for; 0 = already asked
}

// shortOn returns the reason that a budget has no room on this shard for the amount, nil if it has room.
// jobCost is the job's cost without the amount.
func shortOn(b *state.Budget, a *state.Account, jobCost, amount money.Nano, nowNs int64) *shortage {
	if b.PerJobNanoUsd != 0 {
		most := b.Limit(b.PerJobNanoUsd, nowNs)
		if available := billing.Available(most, 0, billing.Sums{Settled: jobCost}); !billing.Admits(available, amount) {
			return &shortage{limit: "per-job", most: most, available: available, amount: amount, forever: true}
		}
	}
	if a.Slice != nil {
		return shortOfSlice(b, a.Slice, amount, nowNs)
	}
	return shortOf(b, a, amount, nowNs)
}

// shortOf returns the reason that the windows of a budget have no room for the amount, nil if they have.
func shortOf(b *state.Budget, a *state.Account, amount money.Nano, nowNs int64) *shortage {
	var short *shortage
	for i, l := range b.Limits {
		available := a.Available(b, l, a.Spent[i], nowNs)
		if billing.Admits(available, amount) {
			continue
		}
		most := b.Limit(l.LimitNanoUsd, nowNs)
		// Every window must have room, so the last one to have it gives the time.
		untilNs := int64(0)
		if least := most - max(amount, 1) - money.Nano(a.ReservedNanoUsd); least >= 0 {
			untilNs = a.Spent[i].FallsTo(least, nowNs)
		}
		if short == nil {
			short = &shortage{limit: windowWords[l.Window], window: l.Window, most: most, available: available, amount: amount, untilNs: untilNs}
		} else if short.untilNs != 0 && untilNs != 0 {
			short.untilNs = max(short.untilNs, untilNs)
		} else {
			short.untilNs = 0
		}
		short.forever = short.forever || amount > most
	}
	return short
}

// verdict returns the decision about a job that budget r has no room for. If the first shard has not yet said
// whether there is room, the job waits at a gate. A job that a throttling budget would make wait for ever is
// held instead, because a person has to act.
func (s *shortage) verdict(r *state.Resource) Verdict {
	v := Verdict{Do: Hold, Hold: job.Hold_HOLD_BUDGET, Reason: ReasonBudget, Name: r.Name, Text: s.text(r), UntilNs: s.untilNs}
	switch {
	case s.unknown:
		v.Do, v.Gate, v.Text = Park, job.Gate_GATE_BUDGET, s.asking(r)
		v.asks, v.of = s.asks, r
	case r.Budget.OnExceed == state.OnExceed_ON_EXCEED_REJECT:
		v.Do = Reject
	case r.Budget.OnExceed == state.OnExceed_ON_EXCEED_THROTTLE && !s.forever:
		v.Do, v.Gate = Park, job.Gate_GATE_BUDGET
	}
	return v
}

// text names the budget, its limit, the money that is left and the cost of the job, and how to raise the
// budget.
func (s *shortage) text(r *state.Resource) string {
	var b strings.Builder
	fmt.Fprintf(&b, "budget %s is exhausted: its %s limit of %s USD has %s available, and the job may cost %s", r.Name, s.limit, s.most, max(s.available, 0), s.amount)
	if s.untilNs != 0 {
		fmt.Fprintf(&b, "; there is room at %s at the earliest", time.Unix(0, s.untilNs).UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(&b, "; raise it for a while with POST /api/v1/budgets/%s/raise", r.Name)
	return b.String()
}
