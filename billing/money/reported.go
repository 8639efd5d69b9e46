package money

import (
	"encoding/json"
	"reflect"
)

// Reported is an amount that a program reports after the fact or estimates, often computed with floats. Its
// JSON form is Nano's, but it decodes every JSON number, as Round does: 0.1+0.2 is 30 cents.
type Reported Nano

// String formats the amount as Nano.String does.
func (r Reported) String() string { return Nano(r).String() }

// MarshalJSON encodes the amount as Nano.MarshalJSON does.
func (r Reported) MarshalJSON() ([]byte, error) { return Nano(r).MarshalJSON() }

// UnmarshalJSON decodes a JSON number as Round does. null leaves r unchanged. A number in quotes is
// refused, because it is a string.
func (r *Reported) UnmarshalJSON(data []byte) error {
	v, err := reported(data, decimals, int64(*r), reflect.TypeFor[Reported]())
	*r = Reported(v)
	return err
}

// ReportedCount is a count that a program reports after the fact. It decodes every JSON number, as
// RoundWhole does.
type ReportedCount int64

// UnmarshalJSON decodes a JSON number as RoundWhole does. null leaves c unchanged. A number in quotes is
// refused, because it is a string.
func (c *ReportedCount) UnmarshalJSON(data []byte) error {
	v, err := reported(data, 0, int64(*c), reflect.TypeFor[ReportedCount]())
	*c = ReportedCount(v)
	return err
}

// reported decodes a JSON number to the nearest number in units of 10^-decimals. It returns was for null
// and with an error.
func reported(data []byte, decimals int, was int64, into reflect.Type) (int64, error) {
	if string(data) == "null" {
		return was, nil
	}
	if kind, ok := jsonKind[data[0]]; ok {
		return was, &json.UnmarshalTypeError{Value: kind, Type: into}
	}
	v, err := read(data, decimals, nearest)
	if err != nil {
		return was, err
	}
	return v, nil
}
