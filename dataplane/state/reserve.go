package state

// A budget says what is reserved for an attempt whose job says nothing of its cost. One
// that declares no reserve has it derived, so that a limit alone makes a budget.

// ReserveSource says where a budget has its reserve from.
type ReserveSource uint8

// The sources.
const (
	ReserveNone     ReserveSource = iota // the budget sums nothing up, so it reserves nothing
	ReserveDeclared                      // it is declared
	ReservePerJob                        // what is left of the limit of one job
	ReserveEstimate                      // the moving average of the attempts of a queue
	ReserveFloor                         // a part of its smallest limit, for the average is lower or unknown
)

// reserveParts is how many attempts of which nothing is known a budget lets run at once
// at most: each reserves that part of its smallest limit.
const reserveParts = 100

// ReserveFloorOf is the least that is reserved by an estimate on a limit: 1 % of it, and
// never nothing.
func ReserveFloorOf(limitNanoUSD int64) int64 { return max(limitNanoUSD/reserveParts, 1) }

// SmallestLimit is the smallest limit of a budget's windows; 0 when it has none.
func (b *Budget) SmallestLimit() (smallest int64) {
	for i, l := range b.GetLimits() {
		if i == 0 || l.LimitNanoUsd < smallest {
			smallest = l.LimitNanoUsd
		}
	}
	return smallest
}

// Reserve is what the budget, as the only one, reserves for an attempt of a job that has
// cost jobCost, and where that comes from. learned is the moving average of what attempts
// of the job's queue cost; 0 is unknown. A budget for each job by itself reserves nothing
// that it does not declare, because it has no sum that concurrent jobs could overshoot.
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
