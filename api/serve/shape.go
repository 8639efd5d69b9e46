package serve

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

// field is a struct field as JSON knows it.
type field struct {
	name     string
	typ      reflect.Type
	optional bool // may be left out of answers: omitempty or omitzero
}

// fieldsOf lists the JSON fields of a struct type in order of declaration,
// those of embedded structs in their place. It serves documents and refusals;
// decoding is encoding/json's.
func fieldsOf(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		inside := f.Anonymous && embedded.Kind() == reflect.Struct
		switch {
		case tag == "-" || !f.IsExported() && !inside:
			continue
		case inside && name == "":
			all = append(all, fieldsOf(embedded)...)
			continue
		case name == "":
			name = f.Name
		}
		words := strings.Split(options, ",")
		optional := slices.Contains(words, "omitempty") || slices.Contains(words, "omitzero")
		all = append(all, field{name: name, typ: f.Type, optional: optional})
	}
	return all
}

// named is the field that encoding/json decodes a name into.
func named(fields []field, name string) (f field, ok bool) {
	at := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if at < 0 {
		at = slices.IndexFunc(fields, func(f field) bool { return strings.EqualFold(f.name, name) })
	}
	if at < 0 {
		return field{}, false
	}
	return fields[at], true
}

// maxFaults is how many faults of one body are listed.
const maxFaults = 20

// faultsOf walks a body that is valid JSON along the type of v and finds the
// fields that do not fit, and with strict those that do not exist.
func faultsOf(body []byte, v any, strict bool) []api.FieldError {
	w := walk{strict: strict}
	w.value("", body, reflect.TypeOf(v))
	return w.faults
}

type walk struct {
	strict bool
	faults []api.FieldError
}

func (w *walk) fault(path, format string, args ...any) {
	if path == "" {
		path = "body"
	}
	if len(w.faults) < maxFaults {
		w.faults = append(w.faults, api.FieldError{Field: path, Error: fmt.Sprintf(format, args...)})
	}
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// ownDecoder says whether a type decodes itself.
func ownDecoder(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(jsonUnmarshaler) || reflect.PointerTo(t).Implements(textUnmarshaler)
}

// value checks one JSON value against a type.
func (w *walk) value(path string, raw json.RawMessage, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(w.faults) >= maxFaults || string(raw) == "null" {
		return
	}
	own := ownDecoder(t)
	switch kind := t.Kind(); {
	case !own && kind == reflect.Struct:
		w.object(path, raw, t)
	case !own && kind == reflect.Map:
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			w.leaf(path, raw, t)
		}
		for _, name := range sortedKeys(members) {
			w.value(join(path, name), members[name], t.Elem())
		}
	case !own && kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var elements []json.RawMessage
		if json.Unmarshal(raw, &elements) != nil {
			w.leaf(path, raw, t)
		}
		texts := t.Elem().Kind() == reflect.String && !ownDecoder(t.Elem())
		for i, element := range elements {
			if texts && element[0] == '"' && !halfPair(element) {
				continue // lists of millions are searched
			}
			w.value(fmt.Sprintf("%s[%d]", path, i), element, t.Elem())
		}
	default:
		w.leaf(path, raw, t)
	}
}

func (w *walk) object(path string, raw json.RawMessage, t reflect.Type) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		w.leaf(path, raw, t)
		return
	}
	fields := fieldsOf(t)
	for _, name := range sortedKeys(members) {
		f, ok := named(fields, name)
		switch {
		case ok:
			w.value(join(path, name), members[name], f.typ)
		case w.strict:
			w.fault(join(path, name), "no such field here")
		}
	}
}

// leaf decodes a value that has no parts to look into.
func (w *walk) leaf(path string, raw json.RawMessage, t reflect.Type) {
	if t != rawMessage && halfPair(raw) {
		w.fault(path, "holds half of a surrogate pair, which is no text")
		return
	}
	err := json.Unmarshal(raw, reflect.New(t).Interface())
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		w.fault(path, "expected %s, got %s", typeWord(t), mismatch.Value)
	case err != nil:
		w.fault(path, "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
}

// typeWord is what people call the JSON form of a type.
func typeWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if reflect.PointerTo(t).Implements(jsonUnmarshaler) {
			return "a number"
		}
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number of %d bits, not negative", t.Bits())
	}
	return "something else"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func sortedKeys(m map[string]json.RawMessage) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
