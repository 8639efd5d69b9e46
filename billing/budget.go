package billing

import (
	"math"
	"math/bits"

	"github.com/corvo/corvo/billing/money"
)

// A budget bounds what may be spent in a window of time. Before work begins, what it
// is expected to cost is reserved; when it has ended, what it did cost is settled up to
// the reservation, and what goes beyond is overrun: work that ran already cannot be
// refused any more. All three are taken from the limit, so that however many begin at
// once, none begins for which there is no money left:
//
//	available = limit - settled - overrun - reserved
//
// Amounts are never negative here, and sums that do not fit are the most that does:
// a budget so full has no room either way.

// Sums is what was spent in a window.
type Sums struct {
	Settled money.Nano // up to what was reserved for it
	Overrun money.Nano // beyond
}

// Spent is both together.
func (s Sums) Spent() money.Nano { return add(s.Settled, s.Overrun) }

// Add is s and other together.
func (s Sums) Add(other Sums) Sums {
	return Sums{add(s.Settled, other.Settled), add(s.Overrun, other.Overrun)}
}

// Settle splits what work has cost by what was reserved for it.
func Settle(cost, reserved money.Nano) Sums {
	settled := min(cost, reserved)
	return Sums{settled, cost - settled}
}

// Available is what of a limit is neither spent nor reserved; negative where it is
// overrun.
func Available(limit, reserved money.Nano, s Sums) money.Nano {
	return limit - add(reserved, s.Spent())
}

// Admits says whether work that is expected to cost an amount may begin where so much
// is available. Where nothing is left it may not, even if it is expected to be free.
func Admits(available, amount money.Nano) bool { return available > 0 && available >= amount }

// Raise is a limit and what it was raised by.
func Raise(limit, by money.Nano) money.Nano { return add(limit, by) }

// Reaches says whether what was spent is at least so many percent of a limit.
func Reaches(spent, limit money.Nano, percent uint32) bool {
	hi, lo := bits.Mul64(uint64(max(spent, 0)), 100)
	wantHi, wantLo := bits.Mul64(uint64(max(limit, 0)), uint64(percent))
	return hi > wantHi || hi == wantHi && lo >= wantLo
}

// add is the sum of two amounts, or the most there is.
func add(a, b money.Nano) money.Nano {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
