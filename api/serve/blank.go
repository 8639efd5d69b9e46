package serve

import (
	"bytes"
	"encoding/json"
	"reflect"
)

var blank = []byte(`""`)

// blanksToNull makes null of each "" that stands in an optional field of another type
// than text, where it is as good as absent. It serves bodies that encoding/json has
// refused: of a string's field it takes "" as it is. All else stays byte for byte. The
// result is body itself where there is none.
func blanksToNull(body []byte, v any) []byte {
	if !bytes.Contains(body, blank) {
		return body
	}
	n := nuller{scanner: scanner{text: body}}
	n.value(reflect.TypeOf(v))
	if n.copied == 0 {
		return body
	}
	return append(n.out, body[n.copied:]...)
}

// nuller goes through a valid text and copies it with other values in it.
type nuller struct {
	scanner
	out    []byte
	copied int // so much of the text is in out
}

// value goes over the value that is next, of a type.
func (n *nuller) value(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first, kind := n.peek(), t.Kind()
	switch {
	case ownDecoder(t):
		n.skip()
	case kind == reflect.Struct && first == '{':
		n.object(fieldNames(t))
	case kind == reflect.Map && first == '{':
		for range n.members() {
			n.value(t.Elem())
		}
	case kind == reflect.Slice && first == '[' && t.Elem().Kind() != reflect.Uint8:
		for range n.elements() {
			n.value(t.Elem())
		}
	default:
		n.skip()
	}
}

func (n *nuller) object(fields *names) {
	for name := range n.members() {
		f, ok := fields.find(name)
		n.peek()
		switch begin := n.at; {
		case !ok:
			n.skip()
		case f.blankIsNull && bytes.HasPrefix(n.text[begin:], blank):
			n.skip()
			n.out = append(append(n.out, n.text[n.copied:begin]...), "null"...)
			n.copied = n.at
		default:
			n.value(f.typ)
		}
	}
}

// refusesBlank says whether "" in the field is as good as absent: it may be left out of a
// request, by its type, and encoding/json takes no "" for it.
func (f *field) refusesBlank() bool {
	switch f.typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
	default:
		if !f.optional {
			return false
		}
	}
	return json.Unmarshal(blank, reflect.New(f.typ).Interface()) != nil
}
