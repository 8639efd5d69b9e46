package money

import (
	"cmp"
	"encoding/json"
	"math"
	"math/bits"
	"reflect"
	"slices"
)

// Count is a whole number of 128 bits that holds sums of int64s. An int64 holds only about 9,200 of the
// largest usage reports. A Count holds more reports than there are sequence numbers, so that no sum of
// usage is ever refused for its size. The zero Count is 0, and Counts can be compared with ==. The JSON
// form is a whole number.
type Count struct {
	hi int64
	lo uint64
}

// CountOf converts n to a Count.
func CountOf(n int64) Count { return Count{n >> 63, uint64(n)} }

// CountOfHalves returns high x 2^31 + low. SQL cannot sum 128 bits, so it sums the high and low halves of the
// numbers separately.
func CountOfHalves(high, low int64) Count {
	const half = 31
	return Count{high >> (64 - half), uint64(high) << half}.Add(CountOf(low))
}

// Add returns c + d.
func (c Count) Add(d Count) Count {
	lo, carry := bits.Add64(c.lo, d.lo, 0)
	return Count{c.hi + d.hi + int64(carry), lo}
}

// Compare returns a negative number if c < d, 0 if c == d, and a positive number if c > d.
func (c Count) Compare(d Count) int {
	return cmp.Or(cmp.Compare(c.hi, d.hi), cmp.Compare(c.lo, d.lo))
}

// Int64 converts c to an int64. A Count that does not fit becomes math.MinInt64 or math.MaxInt64.
func (c Count) Int64() int64 {
	switch {
	case c.hi == int64(c.lo)>>63:
		return int64(c.lo)
	case c.hi < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// String formats c in decimal digits.
func (c Count) String() string { return string(c.append(nil, 0)) }

// MarshalJSON encodes c as a JSON number, in the digits of String.
func (c Count) MarshalJSON() ([]byte, error) { return c.append(nil, 0), nil }

// UnmarshalJSON decodes a whole JSON number of at most 38 digits. null leaves c unchanged. A number in quotes
// is refused, because it is a string.
func (c *Count) UnmarshalJSON(data []byte) error {
	return c.read(data, 0, reflect.TypeFor[Count]())
}

// read decodes a JSON number with at most the given decimals, in units of 10^-decimals.
func (c *Count) read(data []byte, decimals int, into reflect.Type) error {
	if string(data) == "null" {
		return nil
	}
	if kind, ok := jsonKind[data[0]]; ok {
		return &json.UnmarshalTypeError{Value: kind, Type: into}
	}
	n, err := scan(data)
	if err != nil {
		return err
	}
	v, err := n.count(data, decimals)
	if err == nil {
		*c = v
	}
	return err
}

// count converts a scanned number to units of 10^-decimals.
func (n number) count(text []byte, decimals int) (c Count, err error) {
	if n.first < 0 {
		return Count{}, nil
	}
	const most = 38 // digits; every number of 38 digits fits
	lowest, highest := n.place(n.last)+decimals, n.place(n.first)+decimals
	switch {
	case lowest < 0:
		return Count{}, ErrPrecision
	case highest >= most:
		return Count{}, ErrRange
	}
	for i := n.first; i <= n.last; i++ {
		if text[i] != '.' {
			c = c.digit(uint64(text[i] - '0'))
		}
	}
	for range lowest {
		c = c.digit(0)
	}
	if n.negative {
		c = c.negative()
	}
	return c, nil
}

// digit returns 10 c + d. c must not be negative.
func (c Count) digit(d uint64) Count {
	over, lo := bits.Mul64(c.lo, 10)
	return Count{c.hi*10 + int64(over), lo}.Add(Count{0, d})
}

func (c Count) negative() Count { return Count{^c.hi, ^c.lo}.Add(Count{0, 1}) }

// append appends c / 10^decimals without an exponent and without trailing zeros in the fraction.
func (c Count) append(b []byte, decimals int) []byte {
	if c.hi < 0 {
		b = append(b, '-')
		c = c.negative()
	}
	var digits []byte // the last one first
	hi, lo := uint64(c.hi), c.lo
	for hi|lo != 0 || len(digits) <= decimals {
		var digit uint64
		hi, digit = hi/10, hi%10
		lo, digit = bits.Div64(digit, lo, 10)
		digits = append(digits, byte('0'+digit))
	}
	slices.Reverse(digits)
	whole := len(digits) - decimals
	b = append(b, digits[:whole]...)
	fraction := digits[whole:]
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	if len(fraction) > 0 {
		b = append(append(b, '.'), fraction...)
	}
	return b
}
