package op

import (
	"math"
	"testing"

	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// What is left of an agent's max_cost is reckoned as the agent's limit is: a replay of a
// job that has cost more than fits has nothing left, although a person lets it go on.
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
		if got := expectedCost(j, budgets); got != c.want {
			t.Errorf("of %d, %d and %d spent: %d is reserved, want %d", c.most, c.before, c.cost, got, c.want)
		}
	}
}
