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
	"github.com/corvo/corvo/api/text"
)

// field is a struct field as JSON knows it.
type field struct {
	name        string
	letters     []byte // of name
	typ         reflect.Type
	optional    bool // may be left out of answers: omitempty or omitzero
	blankIsNull bool // a "" in it is as good as absent; fieldNames knows it, and letters and at
	at          int  // its place among the fields
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
	exact map[string]field
	all   []field
}

var namesOf sync.Map // reflect.Type of a struct -> *names

func fieldNames(t reflect.Type) *names {
	if n, ok := namesOf.Load(t); ok {
		return n.(*names)
	}
	n := &names{exact: map[string]field{}, all: fieldsOf(t)}
	for i := range n.all {
		f := &n.all[i]
		f.letters, f.blankIsNull, f.at = []byte(f.name), f.refusesBlank(), i
		if _, ok := n.exact[f.name]; !ok {
			n.exact[f.name] = *f
		}
	}
	namesOf.Store(t, n)
	return n
}

// maxFold is how many bytes another case of an ASCII letter may take: the sign for Kelvin is a k.
const maxFold = 3

// find is the field that encoding/json decodes a name, between its quotes, into.
func (n *names) find(name []byte) (f field, ok bool) {
	if f, ok = n.exact[string(name)]; ok {
		return f, true
	}
	var room [2 * maxName]byte
	if bytes.IndexByte(name, '\\') >= 0 {
		name = unquoted(room[:0], name, maxName)
		if f, ok = n.exact[string(name)]; ok {
			return f, true
		}
	}
	at := slices.IndexFunc(n.all, func(f field) bool {
		return len(f.letters) <= len(name) && len(name) <= maxFold*len(f.letters) && bytes.EqualFold(f.letters, name)
	})
	if at < 0 {
		return field{}, false
	}
	return n.all[at], true
}

// maxFaults is how many faults of one body are listed.
const maxFaults = 20

// faultsOf walks a body that is valid JSON along the type of v and finds the
// fields that do not fit, and with strict those that do not exist or are there twice, of
// which the decoder would take the last. It goes over the text
// once, and decodes no more of it than what may not fit: a body may be large and hostile,
// so neither does a fault repeat more of it than a line.
func faultsOf(body []byte, v any, strict bool) []api.FieldError {
	w := walk{scanner: scanner{text: body}, strict: strict}
	w.value(reflect.TypeOf(v))
	return w.faults
}

type walk struct {
	scanner
	strict  bool
	deep    bool   // looks only for raw JSON that is nested too deep; the text may be no JSON
	path    []byte // of the value at hand, such as steps[1].delay
	faults  []api.FieldError
	scratch map[reflect.Type]reflect.Value // pointers to values that leaves are decoded into
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
	case kind == reflect.Map && first == '{' && t.Elem().Kind() == reflect.String:
		w.mapping(t.Elem()) // api.Strings too, which decodes itself for its nulls: a leaf may be one
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
	var had []bool
	if w.strict {
		had = make([]bool, len(fields.all))
	}
	for name := range w.members() {
		w.enter(name)
		f, ok := fields.find(name)
		switch {
		case ok && w.strict && had[f.at]:
			w.fault("is there twice")
			w.skip()
		case ok:
			if w.strict {
				had[f.at] = true
			}
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
		if !w.deep && text.LoneSurrogate(name) >= 0 {
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

// maxName and maxSaid are how much of a name is shown, and of what is said of a value,
// in bytes. No field's name is as long.
const (
	maxName = 128
	maxSaid = 256
)

// enter adds a name to the path.
func (w *walk) enter(name []byte) {
	if len(w.path) > 0 {
		w.path = append(w.path, '.')
	}
	begin := len(w.path)
	if w.path = unquoted(w.path, name, maxName); len(w.path) > begin+maxName {
		w.path = append(w.path[:begin], text.Cut(w.path[begin:], maxName)...)
	}
}

const halfPairFault = "holds half of a surrogate pair, which is no text"

// leaf checks a value that has no parts to look into.
func (w *walk) leaf(t reflect.Type) {
	raw := w.raw()
	if t == rawMessage {
		if err := text.CheckNesting(raw, text.MaxNesting); err != nil {
			w.fault("%v", err)
		}
		return
	}
	switch {
	case w.deep || string(raw) == "null" || fits(raw, t) && text.LoneSurrogate(raw) < 0:
		return
	case text.LoneSurrogate(raw) >= 0:
		w.fault(halfPairFault)
		return
	}
	into, ok := w.scratch[t]
	if !ok {
		if into = reflect.New(t); w.scratch == nil {
			w.scratch = map[reflect.Type]reflect.Value{}
		}
		w.scratch[t] = into
	}
	into.Elem().SetZero()
	err := json.Unmarshal(raw, into.Interface())
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		w.fault("expected %s, got %s", typeWord(t), text.Cut(mismatch.Value, maxSaid))
	case err != nil:
		w.fault("%s", text.Cut(strings.TrimPrefix(err.Error(), "json: "), maxSaid))
	}
}

// fits says whether encoding/json surely takes a value for a type, without decoding it:
// there are lists of millions.
func fits(raw []byte, t reflect.Type) bool {
	if ownDecoder(t) {
		return false
	}
	var err error
	switch t.Kind() {
	case reflect.String:
		return raw[0] == '"'
	case reflect.Bool:
		return raw[0] == 't' || raw[0] == 'f'
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err = strconv.ParseInt(string(raw), 10, t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		_, err = strconv.ParseUint(string(raw), 10, t.Bits())
	default:
		return false
	}
	return err == nil
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
