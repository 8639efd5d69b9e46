package serve

import (
	"bytes"
	"encoding/json"
	"reflect"
)

var blank = []byte(`""`)

// blanksToNull makes null of each "" that stands in an optional field of another type
// than text, where it is as good as absent. It serves bodies that encoding/json has
// refused: of a string's field it takes "" as it is. Raw JSON stays byte for byte.
func blanksToNull(body []byte, v any) []byte {
	if !bytes.Contains(body, blank) {
		return body
	}
	var b bytes.Buffer
	writeNulled(&b, body, reflect.TypeOf(v))
	return b.Bytes()
}

// writeNulled writes one JSON value of a type.
func writeNulled(b *bytes.Buffer, raw json.RawMessage, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var members map[string]json.RawMessage
	var elements []json.RawMessage
	switch kind := t.Kind(); {
	case !bytes.Contains(raw, blank) || ownDecoder(t):
		b.Write(raw)
	case (kind == reflect.Struct || kind == reflect.Map) && json.Unmarshal(raw, &members) == nil:
		writeMembers(b, members, t)
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && json.Unmarshal(raw, &elements) == nil:
		for i, element := range elements {
			b.WriteByte("[,"[min(i, 1)])
			writeNulled(b, element, t.Elem())
		}
		b.WriteByte(']')
	default:
		b.Write(raw)
	}
}

func writeMembers(b *bytes.Buffer, members map[string]json.RawMessage, t reflect.Type) {
	var fields []field
	if t.Kind() == reflect.Struct {
		fields = fieldsOf(t)
	}
	for i, name := range sortedKeys(members) {
		b.WriteByte("{,"[min(i, 1)])
		quoted, _ := json.Marshal(name) // text always can be
		b.Write(quoted)
		b.WriteByte(':')
		switch f, ok := named(fields, name); {
		case t.Kind() == reflect.Map:
			writeNulled(b, members[name], t.Elem())
		case ok && f.absentable() && bytes.Equal(members[name], blank) && json.Unmarshal(blank, reflect.New(f.typ).Interface()) != nil:
			b.WriteString("null")
		case ok:
			writeNulled(b, members[name], f.typ)
		default:
			b.Write(members[name])
		}
	}
	b.WriteByte('}')
}

// absentable says whether a request may do without the field, by its type.
func (f *field) absentable() bool {
	switch f.typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return true
	}
	return f.optional
}
