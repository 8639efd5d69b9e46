package billing

import (
	"math"
	"math/bits"

	"github.com/corvo/corvo/billing/money"
)

// A budget limits the money that may be spent in a window of time. The expected cost of a job is reserved
// before it runs. When it has ended, its actual cost is settled up to the reservation. The cost above the
// reservation is the overrun, because work that has run already cannot be refused. Settled, overrun and
// reserved money is not available, so that no job starts without money left, however many start at once:
//
//	available = limit - settled - overrun - reserved
//
// No amount is negative here except the available one. A sum that does not fit a Nano becomes money.Max, because
// it leaves nothing available of any limit.

// Sums are the amounts spent in a window.
type Sums struct {
	Settled money.Nano // up to the reservation
	Overrun money.Nano // beyond the reservation
}

// Spent returns Settled + Overrun.
func (s Sums) Spent() money.Nano { return add(s.Settled, s.Overrun) }

// Add returns the sums of s and other.
func (s Sums) Add(other Sums) Sums {
	return Sums{add(s.Settled, other.Settled), add(s.Overrun, other.Overrun)}
}

// Settle splits the cost of a job into the part within its reservation and the overrun.
func Settle(cost, reserved money.Nano) Sums {
	settled := min(cost, reserved)
	return Sums{settled, cost - settled}
}

// Available returns the part of a limit that is neither spent nor reserved. It is negative if more is spent and
// reserved than the limit.
func Available(limit, reserved money.Nano, s Sums) money.Nano {
	return limit - add(reserved, s.Spent())
}

// Admits reports whether a job with an expected cost of amount may start. If nothing is available, no job
// may start, even one that is expected to cost nothing.
func Admits(available, amount money.Nano) bool { return available > 0 && available >= amount }

// Raise returns limit + by, at most money.Max.
func Raise(limit, by money.Nano) money.Nano { return add(limit, by) }

// Reaches reports whether spent is at least percent per cent of limit.
func Reaches(spent, limit money.Nano, percent uint32) bool {
	hi, lo := bits.Mul64(uint64(max(spent, 0)), 100)
	wantHi, wantLo := bits.Mul64(uint64(max(limit, 0)), uint64(percent))
	return hi > wantHi || hi == wantHi && lo >= wantLo
}

// add returns a + b, at most math.MaxInt64.
func add(a, b money.Nano) money.Nano {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
