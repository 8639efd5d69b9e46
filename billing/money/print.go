package money

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// String is the amount in dollars as a plain decimal number: no exponent, no
// zeros that could be left out. Parse reads it back.
func (n Nano) String() string {
	var buf [24]byte
	return string(n.append(buf[:0]))
}

// MarshalJSON writes what String does, as a JSON number.
func (n Nano) MarshalJSON() ([]byte, error) { return n.append(make([]byte, 0, 24)), nil }

// UnmarshalJSON reads a JSON number as Parse does. null leaves n as it is; a
// number in quotes is refused, for it is text.
func (n *Nano) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	switch data[0] {
	case '"', '{', '[', 't', 'f':
		// The decoder adds the field's name to an error of this type.
		return &json.UnmarshalTypeError{Value: jsonKind[data[0]], Type: reflect.TypeFor[Nano]()}
	}
	v, err := parse(data, exactly)
	if err != nil {
		return err
	}
	*n = v
	return nil
}

// jsonKind names a JSON value by its first byte.
var jsonKind = map[byte]string{'"': "string", '{': "object", '[': "array", 't': "bool", 'f': "bool"}

func (n Nano) append(b []byte) []byte {
	size := uint64(n)
	if n < 0 {
		b = append(b, '-')
		size = -size // right for Min too, which has no positive int64
	}
	b = strconv.AppendUint(b, size/uint64(Dollar), 10)
	fraction := size % uint64(Dollar)
	if fraction == 0 {
		return b
	}
	// One more digit in front keeps the fraction's leading zeros.
	point := len(b)
	b = strconv.AppendUint(b, uint64(Dollar)+fraction, 10)
	b[point] = '.'
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}
