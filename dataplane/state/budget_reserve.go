package state

// A budget reserves money for each attempt whose job declares no cost of its own. A budget that declares no
// reserve has it derived, so that a limit alone makes a budget.

// ReserveSource tells how the reserve of a budget is determined.
type ReserveSource uint8

// The sources of a reserve.
const (
	ReserveNone     ReserveSource = iota // the budget has no sum, so it reserves nothing
	ReserveDeclared                      // declared by the budget
	ReservePerJob                        // the rest of the limit of one job
	ReserveEstimate                      // the moving average of the queue's attempts
	ReserveFloor                         // a part of the smallest limit, because the average is lower or unknown
)

// reserveParts bounds the attempts of unknown cost that a budget lets run at once: each reserves this part of
// its smallest limit.
const reserveParts = 100

// ReserveFloorOf returns the smallest reserve by an estimate under a limit: 1 % of the limit, and at least 1.
func ReserveFloorOf(limitNanoUSD int64) int64 { return max(limitNanoUSD/reserveParts, 1) }

// SmallestLimit returns the smallest limit of a budget's windows, or 0 if it has none.
func (b *Budget) SmallestLimit() (smallest int64) {
	for i, l := range b.GetLimits() {
		if i == 0 || l.LimitNanoUsd < smallest {
			smallest = l.LimitNanoUsd
		}
	}
	return smallest
}

// Reserve returns the amount that the budget alone reserves for an attempt of a job that has cost jobCost so
// far, and its source. learned is the moving average of the cost of the queue's attempts; 0 is unknown. A
// budget with the scope job reserves only a declared amount, because it has no sum that concurrent jobs could
// overshoot.
func (b *Budget) Reserve(jobCost, learned int64) (nanoUSD int64, from ReserveSource) {
	if b.ReserveNanoUsd > 0 {
		return b.ReserveNanoUsd, ReserveDeclared
	}
	if b.Scope == BudgetScope_BUDGET_SCOPE_JOB {
		return 0, ReserveNone
	}
	if left := b.PerJobNanoUsd - jobCost; left > 0 {
		return left, ReservePerJob
	}
	smallest := b.SmallestLimit()
	if smallest == 0 {
		return 0, ReserveNone
	}
	if floor := ReserveFloorOf(smallest); learned <= floor {
		return floor, ReserveFloor
	}
	return min(learned, smallest), ReserveEstimate
}
