package money

import "reflect"

// Total is a sum of Nanos, as wide as a Count and in the same unit. In JSON it is a
// decimal number of dollars, exact to the last of its nine decimals.
type Total Count

// TotalOf is n as a Total.
func TotalOf(n Nano) Total { return Total(CountOf(int64(n))) }

// Add is t + u.
func (t Total) Add(u Total) Total { return Total(Count(t).Add(Count(u))) }

// Compare is negative where t is less than u, and positive where it is more.
func (t Total) Compare(u Total) int { return Count(t).Compare(Count(u)) }

// Nano is t, or the Nano nearest to it.
func (t Total) Nano() Nano { return Nano(Count(t).Int64()) }

// String is the amount in dollars as Nano's String writes it.
func (t Total) String() string { return string(Count(t).append(nil, decimals)) }

// MarshalJSON writes what String does, as a JSON number.
func (t Total) MarshalJSON() ([]byte, error) { return Count(t).append(nil, decimals), nil }

// UnmarshalJSON reads a JSON number of dollars. null leaves t as it is; a number in
// quotes is refused, for it is text.
func (t *Total) UnmarshalJSON(data []byte) error {
	return (*Count)(t).read(data, decimals, reflect.TypeFor[Total]())
}
