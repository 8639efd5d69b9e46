package money

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// String formats the amount in dollars as a decimal number without an exponent and without trailing zeros in
// the fraction. Parse reads it back.
func (n Nano) String() string {
	var buf [24]byte
	return string(n.append(buf[:0]))
}

// MarshalJSON encodes n as a JSON number, in the digits of String.
func (n Nano) MarshalJSON() ([]byte, error) { return n.append(make([]byte, 0, 24)), nil }

// UnmarshalJSON decodes a JSON number as Parse does. null leaves n unchanged. A number in quotes is
// refused, because it is a string.
func (n *Nano) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	switch data[0] {
	case '"', '{', '[', 't', 'f':
		// The decoder adds the name of the field to an error of this type.
		return &json.UnmarshalTypeError{Value: jsonKind[data[0]], Type: reflect.TypeFor[Nano]()}
	}
	v, err := parse(data, exactly)
	if err != nil {
		return err
	}
	*n = v
	return nil
}

// jsonKind maps the first byte of a JSON value to the name of its type.
var jsonKind = map[byte]string{'"': "string", '{': "object", '[': "array", 't': "bool", 'f': "bool"}

func (n Nano) append(b []byte) []byte {
	size := uint64(n)
	if n < 0 {
		b = append(b, '-')
		size = -size // correct for Min too, although -Min is no int64
	}
	b = strconv.AppendUint(b, size/uint64(Dollar), 10)
	fraction := size % uint64(Dollar)
	if fraction == 0 {
		return b
	}
	// Adding a dollar puts a 1 before the fraction, which keeps the leading zeros of the fraction; the point
	// then replaces the 1.
	point := len(b)
	b = strconv.AppendUint(b, uint64(Dollar)+fraction, 10)
	b[point] = '.'
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}
