package serve

import (
	"bytes"
	"encoding/json"
	"reflect"
)

var blank = []byte(`""`)

// blanksToNull replaces each "" in an optional field that is not a string by null, because "" counts as
// absent there. Decode calls it only for bodies that encoding/json has refused. All other bytes stay the
// same. If there is no such "", the result is body itself.
func blanksToNull(body []byte, v any) []byte {
	if !bytes.Contains(body, blank) {
		return body
	}
	n := blankReplacer{scanner: scanner{text: body}}
	n.value(reflect.TypeOf(v))
	if n.copied == 0 {
		return body
	}
	return append(n.out, body[n.copied:]...)
}

// blankReplacer goes through a valid text and copies it, with some values replaced, to out.
type blankReplacer struct {
	scanner
	out    []byte
	copied int // length of the part of the text that is in out
}

// value goes over the next value, which is decoded into the type t.
func (n *blankReplacer) value(t reflect.Type) {
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

func (n *blankReplacer) object(fields *names) {
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

// refusesBlank reports whether "" in the field counts as absent: its type or its tag makes it optional in a
// request, and encoding/json refuses "" for it.
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
