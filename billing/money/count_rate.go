package money

import (
	"math"
	"math/bits"
)

// Negative reports whether c < 0.
func (c Count) Negative() bool { return c.hi < 0 }

// Minus returns c - d.
func (c Count) Minus(d Count) Count { return c.Add(d.negative()) }

// AddNatural returns c + d for counts that are not negative. The error is ErrRange if one is negative or the sum does not
// fit 127 bits.
func (c Count) AddNatural(d Count) (Count, error) {
	sum := c.Add(d)
	if c.Negative() || d.Negative() || sum.Negative() {
		return Count{}, ErrRange
	}
	return sum, nil
}

// Price returns c x price / per, rounded half to even. It computes with 191 bits. The error is ErrRange if the result is
// above Max, if c or price is negative, or if per is not positive.
func (c Count) Price(price Nano, per int64) (Nano, error) {
	if c.Negative() || price < 0 || per <= 0 {
		return 0, ErrRange
	}
	p, unit := uint64(price), uint64(per)
	carried, low := bits.Mul64(c.lo, p)
	high, middle := bits.Mul64(uint64(c.hi), p)
	middle, carry := bits.Add64(middle, carried, 0)
	high += carry // cannot wrap: the product of 127 and 63 bits has 190 bits
	// Long division, one word at a time.
	top, rest := high/unit, high%unit
	next, rest := bits.Div64(rest, middle, unit)
	quotient, rest := bits.Div64(rest, low, unit)
	if top != 0 || next != 0 || quotient > math.MaxInt64 {
		return 0, ErrRange
	}
	if left := unit - rest; rest > left || rest == left && quotient%2 == 1 {
		quotient++
	}
	if quotient > math.MaxInt64 {
		return 0, ErrRange
	}
	return Nano(quotient), nil
}
