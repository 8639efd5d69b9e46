// Package money represents an amount of US dollars as a whole number of billionths, and converts it exactly
// from and to decimal text. It knows no prices, budgets or ledgers. Of this module it imports only api/text.
package money

import (
	"errors"
	"math"
)

// Nano is an amount in billionths of a US dollar (1e-9 USD). Amounts may be negative. The JSON form is a
// decimal number of dollars with up to nine decimals, always exact.
type Nano int64

// Min and Max limit an amount to about 9.2 billion dollars either way. Dollar is one dollar.
const (
	Min    Nano = math.MinInt64
	Max    Nano = math.MaxInt64
	Dollar Nano = 1_000_000_000
)

// decimals is the largest number of digits after the decimal point.
const decimals = 9

// Every error of this package wraps one of these errors, except that the JSON methods return a
// *json.UnmarshalTypeError for a JSON value that is no number.
var (
	ErrSyntax    = errors.New("not a decimal number")
	ErrPrecision = errors.New("more than nine decimals")
	ErrRange     = errors.New("amount out of range")
)

// Add returns n + m, or ErrRange if the sum is beyond Min or Max.
func (n Nano) Add(m Nano) (Nano, error) {
	sum := n + m
	// An overflow wraps the sum to the wrong side of n.
	if m > 0 && sum < n || m < 0 && sum > n {
		return 0, ErrRange
	}
	return sum, nil
}
