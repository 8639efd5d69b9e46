package money

import (
	"encoding/json"
	"reflect"
)

// Reported is an amount that a program reports after the fact, or estimates: what it has
// computed, often with floats. Its JSON is Nano's, but that any number is read, as
// Round does: 0.1+0.2 is 30 cents.
type Reported Nano

// String is the amount as Nano's String writes it.
func (r Reported) String() string { return Nano(r).String() }

// MarshalJSON writes what String does, as a JSON number.
func (r Reported) MarshalJSON() ([]byte, error) { return Nano(r).MarshalJSON() }

// UnmarshalJSON reads a JSON number as Round does. null leaves r as it is; a number in
// quotes is refused, for it is text.
func (r *Reported) UnmarshalJSON(data []byte) error {
	v, err := reported(data, decimals, int64(*r), reflect.TypeFor[Reported]())
	*r = Reported(v)
	return err
}

// ReportedCount is a count that a program reports after the fact: any JSON number is
// read, as RoundWhole does.
type ReportedCount int64

// UnmarshalJSON reads a JSON number as RoundWhole does. null leaves c as it is; a number
// in quotes is refused, for it is text.
func (c *ReportedCount) UnmarshalJSON(data []byte) error {
	v, err := reported(data, 0, int64(*c), reflect.TypeFor[ReportedCount]())
	*c = ReportedCount(v)
	return err
}

// reported is the number nearest to a JSON number; what it was for null, and for what is
// none.
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
