package money

import "reflect"

// Total is a sum of Nanos, as wide as a Count and in the same unit as a Nano. The JSON form is a decimal
// number of dollars with up to nine decimals, always exact.
type Total Count

// TotalOf converts n to a Total.
func TotalOf(n Nano) Total { return Total(CountOf(int64(n))) }

// Add returns t + u.
func (t Total) Add(u Total) Total { return Total(Count(t).Add(Count(u))) }

// Compare returns a negative number if t < u, 0 if t == u, and a positive number if t > u.
func (t Total) Compare(u Total) int { return Count(t).Compare(Count(u)) }

// Nano converts t to a Nano. A Total beyond its range becomes Min or Max.
func (t Total) Nano() Nano { return Nano(Count(t).Int64()) }

// String formats the amount in dollars as Nano.String does.
func (t Total) String() string { return string(Count(t).append(nil, decimals)) }

// MarshalJSON encodes t as a JSON number, in the digits of String.
func (t Total) MarshalJSON() ([]byte, error) { return Count(t).append(nil, decimals), nil }

// UnmarshalJSON decodes a JSON number of dollars. null leaves t unchanged. A number in quotes is refused,
// because it is a string.
func (t *Total) UnmarshalJSON(data []byte) error {
	return (*Count)(t).read(data, decimals, reflect.TypeFor[Total]())
}
