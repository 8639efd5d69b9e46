package money

import (
	"fmt"
	"math"
	"strconv"
)

// Parse reads a dollar amount written as a JSON number, exponents included:
// "12", "0.000000001", "1.23e-7". It is exact: text that needs more than nine
// decimals is ErrPrecision (zeros at the end do not count), an amount beyond
// Min or Max is ErrRange, anything else that is no JSON number is ErrSyntax.
func Parse(text string) (Nano, error) { return parse(text, exactly) }

// Round reads a dollar amount as Parse does, and makes of any JSON number the Nano
// nearest to it: more than nine decimals round half to even, and an amount beyond Min
// or Max is Min or Max. It is for amounts that somebody reports, which are the result of
// arithmetic with floats in the reporting program. Declared amounts are Parse's. The error is
// ErrSyntax.
func Round(text []byte) (Nano, error) { return parse(text, nearest) }

// RoundWhole is Round of a count: the int64 nearest to a JSON number.
func RoundWhole(text []byte) (int64, error) { return read(text, 0, nearest) }

// RoundFloat is Round of a float's shortest decimal form. NaN is ErrSyntax; infinities
// are Min and Max.
func RoundFloat(f float64) (Nano, error) {
	switch {
	case math.IsInf(f, 1):
		return Max, nil
	case math.IsInf(f, -1):
		return Min, nil
	}
	return fromFloat(f, nearest)
}

// FromFloatShortest is the amount whose decimal form is the shortest that reads
// back as f, which is what a person wrote before it became a float: 0.1 is ten
// cents exactly. NaN and infinities are ErrSyntax; otherwise the errors are
// Parse's.
func FromFloatShortest(f float64) (Nano, error) { return fromFloat(f, exactly) }

func fromFloat(f float64, how precision) (Nano, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%v: %w", f, ErrSyntax)
	}
	var buf [32]byte
	return parse(strconv.AppendFloat(buf[:0], f, 'e', -1, 64), how)
}

// precision says how an amount that is no Nano is read.
type precision bool

const (
	exactly precision = false // it is refused
	nearest precision = true  // it is the nearest one
)

// parse does not build the number it reads: it finds the first and last digit
// that count and where the decimal point is, so that neither a million zeros
// nor an exponent of a million costs more than reading them.
func parse[T string | []byte](text T, how precision) (Nano, error) {
	n, err := read(text, decimals, how)
	return Nano(n), err
}

// read is a number in units of 10^-decimals.
func read[T string | []byte](text T, decimals int, how precision) (int64, error) {
	n, err := scan(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", excerpt(text), err)
	}
	if n.first < 0 {
		return 0, nil
	}
	// A digit at place p stands for 10^p dollars.
	lowest, highest := n.place(n.last), n.place(n.first)
	if lowest < -decimals && how == exactly {
		return 0, fmt.Errorf("%s: %w", excerpt(text), ErrPrecision)
	}
	const most = 19 // digits in Max; any number of 19 digits fits a uint64
	if highest+decimals < most {
		size := units(text, n, decimals)
		switch {
		case n.negative && size <= -math.MinInt64:
			return int64(-size), nil
		case !n.negative && size <= math.MaxInt64:
			return int64(size), nil
		}
	}
	switch {
	case how == exactly:
		return 0, fmt.Errorf("%s: %w", excerpt(text), ErrRange)
	case n.negative:
		return math.MinInt64, nil
	}
	return math.MaxInt64, nil
}

// units is the size of a number in units of 10^-decimals, rounded half to even. Its digits
// up to there fit a uint64.
func units[T string | []byte](text T, n number, decimals int) (size uint64) {
	cut, after := -1, false // the first digit beyond, if there is one, and whether more than zeros follow
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

// number is where the parts of a number are in its text.
type number struct {
	negative    bool
	first, last int // indexes of the first and last digit other than 0; -1 if none
	point       int // index of the decimal point, or of where it would be
	exponent    int
}

// place is the power of ten of the digit at index i.
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

// scanExponent reads the exponent that ends a number of the given length. Past
// that length and the digits of an amount, a greater exponent changes no
// verdict, so it is held there and cannot overflow.
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

// excerpt quotes the start of refused text for a message.
func excerpt[T string | []byte](text T) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "..."
	}
	return strconv.Quote(string(text))
}
