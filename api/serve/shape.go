package serve

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/corvo/corvo/api"
)

// field is a struct field as JSON knows it.
type field struct {
	name     string
	typ      reflect.Type
	optional bool // may be left out of answers: omitempty or omitzero
	noBlank  bool // a "" in it is as good as absent; fieldNames knows it
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

// names are the fields of a struct by their names in JSON.
type names struct {
	exact   map[string]field
	all     []field
	letters [][]byte // of the names of all
}

var namesOf sync.Map // reflect.Type of a struct -> *names

func fieldNames(t reflect.Type) *names {
	if n, ok := namesOf.Load(t); ok {
		return n.(*names)
	}
	n := &names{exact: map[string]field{}, all: fieldsOf(t)}
	for i := range n.all {
		n.all[i].noBlank = n.all[i].refusesBlank()
		f := n.all[i]
		n.letters = append(n.letters, []byte(f.name))
		if _, ok := n.exact[f.name]; !ok {
			n.exact[f.name] = f
		}
	}
	namesOf.Store(t, n)
	return n
}

// find is the field that encoding/json decodes a name, between its quotes, into.
func (n *names) find(name []byte) (f field, ok bool) {
	if f, ok = n.exact[string(name)]; ok {
		return f, true
	}
	name = unquoted(name)
	if f, ok = n.exact[string(name)]; ok {
		return f, true
	}
	at := slices.IndexFunc(n.letters, func(letters []byte) bool { return bytes.EqualFold(letters, name) })
	if at < 0 {
		return field{}, false
	}
	return n.all[at], true
}

// maxFaults is how many faults of one body are listed.
const maxFaults = 20

// faultsOf walks a body that is valid JSON along the type of v and finds the
// fields that do not fit, and with strict those that do not exist. It looks at each byte
// once or twice, and takes memory for faults alone: a body may be large and hostile.
func faultsOf(body []byte, v any, strict bool) []api.FieldError {
	w := walk{scanner: scanner{text: body}, strict: strict}
	w.value(reflect.TypeOf(v))
	return w.faults
}

type walk struct {
	scanner
	strict bool
	path   []byte // of the value at hand, such as steps[1].delay
	faults []api.FieldError
}

func (w *walk) full() bool { return len(w.faults) >= maxFaults }

func (w *walk) fault(format string, args ...any) {
	path := string(w.path)
	if path == "" {
		path = "body"
	}
	if !w.full() {
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

// value checks the value that is next against a type.
func (w *walk) value(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first, kind := w.peek(), t.Kind()
	switch {
	case ownDecoder(t):
		w.leaf(t)
	case kind == reflect.Struct && first == '{':
		w.object(fieldNames(t))
	case kind == reflect.Map && first == '{':
		w.mapping(t.Elem())
	case kind == reflect.Slice && first == '[' && t.Elem().Kind() != reflect.Uint8:
		w.array(t.Elem())
	default:
		w.leaf(t)
	}
}

func (w *walk) object(fields *names) {
	above := len(w.path)
	for name := range w.members() {
		w.enter(name)
		f, ok := fields.find(name)
		switch {
		case ok:
			w.value(f.typ)
		case w.strict:
			w.fault("no such field here")
			w.skip()
		default:
			w.skip()
		}
		if w.path = w.path[:above]; w.full() {
			return
		}
	}
}

func (w *walk) mapping(t reflect.Type) {
	above := len(w.path)
	for name := range w.members() {
		if halfPair(name) {
			w.fault(halfPairFault)
		}
		w.enter(name)
		w.value(t)
		if w.path = w.path[:above]; w.full() {
			return
		}
	}
}

func (w *walk) array(t reflect.Type) {
	above := len(w.path)
	for i := range w.elements() {
		w.path = append(strconv.AppendInt(append(w.path, '['), int64(i), 10), ']')
		w.value(t)
		if w.path = w.path[:above]; w.full() {
			return
		}
	}
}

// enter adds a name to the path.
func (w *walk) enter(name []byte) {
	if len(w.path) > 0 {
		w.path = append(w.path, '.')
	}
	w.path = append(w.path, unquoted(name)...)
}

const halfPairFault = "holds half of a surrogate pair, which is no text"

// leaf decodes a value that has no parts to look into.
func (w *walk) leaf(t reflect.Type) {
	raw := w.raw()
	switch {
	case string(raw) == "null":
		return
	case t != rawMessage && halfPair(raw):
		w.fault(halfPairFault)
		return
	case t.Kind() == reflect.String && raw[0] == '"' && !ownDecoder(t):
		return // without decoding it: there are lists of millions
	}
	err := json.Unmarshal(raw, reflect.New(t).Interface())
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		w.fault("expected %s, got %s", typeWord(t), mismatch.Value)
	case err != nil:
		w.fault("%s", strings.TrimPrefix(err.Error(), "json: "))
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
