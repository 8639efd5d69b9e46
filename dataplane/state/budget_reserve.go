package state

// A budget reserves money for each attempt. If neither the job nor its agent's limit gives the amount, the
// budget does. A budget that declares no reserve derives it, so that a user need declare nothing but a limit.

// ReserveSource tells how the reserve of a budget is determined.
type ReserveSource uint8

// The sources of a reserve.
const (
	ReserveNone     ReserveSource = iota // none is declared, and the scope is job or no limit gives one
	ReserveDeclared                      // declared by the budget
	ReservePerJob                        // the unspent part of the limit of one job
	ReserveEstimate                      // the moving average of the cost of the queue's attempts, at most the smallest limit
	ReserveFloor                         // a part of the smallest limit, because the average is not higher or is unknown
)

// reserveParts bounds the attempts of unknown or small cost that a budget lets run at once: each reserves
// 1/reserveParts of the smallest limit.
const reserveParts = 100

// ReserveFloorOf returns the smallest estimated reserve under a limit: 1 % of the limit, and at least 1
// nano-dollar.
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
// far, and its source. learned is the moving average of the cost of the queue's attempts; 0 is unknown. All
// amounts are in nano-dollars. A budget of scope job reserves only a declared amount, because it counts each
// job by itself and concurrent jobs cannot overshoot it.
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
