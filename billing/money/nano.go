// Package money is an amount of US dollars as a whole number of billionths,
// with exact conversion from and to decimal text. It owns no prices, budgets or
// ledgers, and imports nothing of ours.
package money

import (
	"errors"
	"math"
)

// Nano is an amount in billionths of a US dollar (1e-9 USD). Amounts may be
// negative. In JSON it is a decimal number of dollars, exact to the last of its
// nine decimals.
type Nano int64

// The bounds of an amount, about 9.2 billion dollars either way, and its unit.
const (
	Min    Nano = math.MinInt64
	Max    Nano = math.MaxInt64
	Dollar Nano = 1_000_000_000
)

// decimals is how many digits follow the decimal point at most.
const decimals = 9

// Why text is no amount. Parse and its kin wrap one of them.
var (
	ErrSyntax    = errors.New("not a decimal number")
	ErrPrecision = errors.New("more than nine decimals")
	ErrRange     = errors.New("amount out of range")
)

// Add is n + m, or ErrRange where the sum is beyond Min or Max.
func (n Nano) Add(m Nano) (Nano, error) {
	sum := n + m
	// Overflow shows as a sum on the wrong side of n.
	if m > 0 && sum < n || m < 0 && sum > n {
		return 0, ErrRange
	}
	return sum, nil
}
