package money

import (
	"fmt"
	"math"
	"strconv"

	"github.com/corvo/corvo/api/text"
)

// Parse parses a dollar amount written as a JSON number, with or without an exponent: "12", "0.000000001",
// "1.23e-7". The result is exact. A number with more than nine decimals is ErrPrecision (trailing zeros do
// not count), and an amount beyond Min or Max is ErrRange. Text that is not a JSON number is ErrSyntax.
func Parse(text string) (Nano, error) { return parse(text, exactly) }

// Round parses a JSON number as Parse does, but returns the nearest Nano: it rounds more than nine
// decimals half to even, and returns Min or Max for an amount beyond them. Use it for reported amounts,
// because the reporting program computes them with floats. Use Parse for declared amounts. The only error
// is ErrSyntax.
func Round(text []byte) (Nano, error) { return parse(text, nearest) }

// RoundWhole parses a JSON number and returns the nearest int64, with the rounding and the limits of Round.
func RoundWhole(text []byte) (int64, error) { return read(text, 0, nearest) }

// RoundFloat rounds f as Round rounds the shortest decimal form of f. NaN is ErrSyntax; infinities become
// Min and Max.
func RoundFloat(f float64) (Nano, error) {
	switch {
	case math.IsInf(f, 1):
		return Max, nil
	case math.IsInf(f, -1):
		return Min, nil
	}
	return fromFloat(f, nearest)
}

// FromFloatShortest returns the amount with the shortest decimal form that reads back as f, because a
// person wrote that form before it became a float: 0.1 is exactly ten cents. NaN and infinities are
// ErrSyntax; the other errors are those of Parse.
func FromFloatShortest(f float64) (Nano, error) { return fromFloat(f, exactly) }

func fromFloat(f float64, how precision) (Nano, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%v: %w", f, ErrSyntax)
	}
	var buf [32]byte
	return parse(strconv.AppendFloat(buf[:0], f, 'e', -1, 64), how)
}

// precision selects what happens to a number that no Nano equals.
type precision bool

const (
	exactly precision = false // refuse it
	nearest precision = true  // round it to the nearest Nano
)

// parse reads an amount without computing the whole number in its text. It only finds the first and last
// significant digits and the decimal point, so that neither a million zeros nor an exponent of a million
// costs more than reading the text.
func parse[T string | []byte](text T, how precision) (Nano, error) {
	n, err := read(text, decimals, how)
	return Nano(n), err
}

// read parses a number and returns it in units of 10^-decimals.
func read[T string | []byte](amount T, decimals int, how precision) (int64, error) {
	n, err := scan(amount)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", text.Quote(amount), err)
	}
	if n.first < 0 {
		return 0, nil
	}
	// A digit at place p stands for 10^p dollars.
	lowest, highest := n.place(n.last), n.place(n.first)
	if lowest < -decimals && how == exactly {
		return 0, fmt.Errorf("%s: %w", text.Quote(amount), ErrPrecision)
	}
	const most = 19 // the number of digits of Max; every number of 19 digits fits a uint64
	if highest+decimals < most {
		size := units(amount, n, decimals)
		switch {
		case n.negative && size <= -math.MinInt64:
			return int64(-size), nil
		case !n.negative && size <= math.MaxInt64:
			return int64(size), nil
		}
	}
	switch {
	case how == exactly:
		return 0, fmt.Errorf("%s: %w", text.Quote(amount), ErrRange)
	case n.negative:
		return math.MinInt64, nil
	}
	return math.MaxInt64, nil
}

// units returns the absolute value of a number in units of 10^-decimals, rounded half to even. The digits
// of that value must fit a uint64.
func units[T string | []byte](text T, n number, decimals int) (size uint64) {
	cut, after := -1, false // the first digit beyond the unit, or -1, and whether a later digit is not 0
	for i := n.first; i <= n.last; i++ {
		if text[i] == '.' {
			continue
		}
		switch place := n.place(i); {
		case place >= -decimals:
			size = size*10 + uint64(text[i]-'0')
		case place == -decimals-1:
			cut = int(text[i] - '0')
		default:
			after = after || text[i] != '0'
		}
	}
	for range max(n.place(n.last)+decimals, 0) {
		size *= 10
	}
	if cut > 5 || cut == 5 && (after || size%2 == 1) {
		size++
	}
	return size
}

// number holds the positions of the parts of a number in its text.
type number struct {
	negative    bool
	first, last int // indexes of the first and last digit other than 0; -1 if none
	point       int // index of the decimal point, or of the place where it would be
	exponent    int
}

// place returns the power of ten of the digit at index i.
func (n number) place(i int) int {
	if i < n.point {
		return n.point - i - 1 + n.exponent
	}
	return n.point - i + n.exponent
}

// scan checks the grammar of a JSON number and finds its parts.
func scan[T string | []byte](text T) (number, error) {
	n := number{first: -1, last: -1}
	i := 0
	if i < len(text) && text[i] == '-' {
		n.negative = true
		i++
	}
	digits := func() (some bool) {
		for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
			some = true
			if text[i] != '0' {
				if n.first < 0 {
					n.first = i
				}
				n.last = i
			}
		}
		return some
	}
	start := i
	if !digits() || text[start] == '0' && i > start+1 {
		return n, ErrSyntax
	}
	n.point = i
	if i < len(text) && text[i] == '.' {
		i++
		if !digits() {
			return n, ErrSyntax
		}
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		exponent, ok := scanExponent(text[i+1:], len(text))
		if !ok {
			return n, ErrSyntax
		}
		n.exponent, i = exponent, len(text)
	}
	if i != len(text) {
		return n, ErrSyntax
	}
	return n, nil
}

// scanExponent parses the exponent at the end of a number whose text has the given length. It caps the
// exponent at that length plus the digits of an amount, so that it cannot overflow: a larger exponent
// would not change the result.
func scanExponent[T string | []byte](text T, length int) (exponent int, ok bool) {
	limit := length + 64
	sign := 1
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		if text[0] == '-' {
			sign = -1
		}
		text = text[1:]
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		exponent = min(exponent*10+int(text[i]-'0'), limit)
	}
	return sign * exponent, len(text) > 0
}
