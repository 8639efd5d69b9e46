package op

import (
	"math"
	"testing"

	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// The rest of an agent's max_cost follows the agent's limit: a replay of a job that has cost more than the
// limit has nothing left, although a person approves it.
func TestExpectedCostOfAnAgent(t *testing.T) {
	t.Parallel()
	budgets := []*state.Resource{{Budget: &state.Budget{ReserveNanoUsd: 7}}}
	for _, c := range []struct {
		most, before, cost int64
		want               money.Nano
	}{
		{100, 0, 0, 100},
		{100, 30, 20, 50},
		{100, 60, 40, 7},
		{100, -40, 40, 100}, // started over
		{job.MaxMoney, math.MaxInt64, math.MaxInt64, 7},
	} {
		j := &job.Job{
			Options: &job.Options{Agent: &job.AgentConfig{MaxCostNanoUsd: c.most}},
			Usage:   &job.Usage{CostNanoUsd: c.cost}, Detail: &job.Detail{SpentBeforeNanoUsd: c.before},
		}
		if got := expectedCost(j, budgets, 0); got != c.want {
			t.Errorf("of %d, %d and %d spent: %d is reserved, want %d", c.most, c.before, c.cost, got, c.want)
		}
	}
}

// A budget that declares no reserve derives it: from the job's own limit, else from the cost of its queue's
// earlier attempts, with a floor of 1 % of the smallest limit.
func TestExpectedCostIsDerived(t *testing.T) {
	t.Parallel()
	budget := func(scope state.BudgetScope, reserve, perJob int64, limits ...int64) *state.Resource {
		b := &state.Budget{Scope: scope, ReserveNanoUsd: reserve, PerJobNanoUsd: perJob}
		for _, l := range limits {
			b.Limits = append(b.Limits, &state.SpendLimit{LimitNanoUsd: l})
		}
		return &state.Resource{Budget: b}
	}
	const queue, space, each = state.BudgetScope_BUDGET_SCOPE_QUEUE, state.BudgetScope_BUDGET_SCOPE_NAMESPACE, state.BudgetScope_BUDGET_SCOPE_JOB
	lenient := budget(space, 0, 0, 1000)
	lenient.Budget.OnExceed = state.OnExceed_ON_EXCEED_ALERT_ONLY
	for name, c := range map[string]struct {
		cost, learned int64
		budgets       []*state.Resource
		want          money.Nano
	}{
		"the floor":                          {0, 0, []*state.Resource{budget(queue, 0, 0, 5000, 3000)}, 30},
		"the floor, of a tiny limit":         {0, 0, []*state.Resource{budget(queue, 0, 0, 20)}, 1},
		"the floor, where less was learned":  {0, 29, []*state.Resource{budget(queue, 0, 0, 3000)}, 30},
		"what was learned":                   {0, 31, []*state.Resource{budget(queue, 0, 0, 3000)}, 31},
		"what was learned, within the limit": {0, 4000, []*state.Resource{budget(queue, 0, 0, 3000)}, 3000},
		"of one that only tells, beyond it":  {0, 4000, []*state.Resource{lenient}, 4000},
		"what a job may cost":                {0, 31, []*state.Resource{budget(queue, 0, 500, 3000)}, 500},
		"what a job may still cost":          {200, 31, []*state.Resource{budget(queue, 0, 500, 3000)}, 300},
		"of a job that has cost it all":      {500, 31, []*state.Resource{budget(queue, 0, 500, 3000)}, 31},
		"what is declared":                   {0, 31, []*state.Resource{budget(queue, 7, 500, 3000)}, 7},
		"the most of declared and learned":   {0, 31, []*state.Resource{budget(queue, 7, 0, 3000), budget(space, 0, 0, 9000)}, 31},
		"the floor of the smallest limit":    {0, 0, []*state.Resource{budget(queue, 0, 0, 5000), budget(space, 0, 0, 1000000)}, 50},
		"nothing of a budget for each job":   {0, 31, []*state.Resource{budget(each, 0, 500)}, 0},
		"what a budget for each job leaves":  {480, 31, []*state.Resource{budget(each, 0, 500), budget(queue, 0, 0, 3000)}, 20},
	} {
		j := &job.Job{Usage: &job.Usage{CostNanoUsd: c.cost}}
		if got := expectedCost(j, c.budgets, c.learned); got != c.want {
			t.Errorf("%s: %d is reserved, want %d", name, got, c.want)
		}
	}
}
