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

// field is a field of a struct in its JSON form.
type field struct {
	name        string
	letters     []byte // of name
	typ         reflect.Type
	optional    bool // has omitempty or omitzero
	blankIsNull bool // "" counts as absent; set by fieldNames, like letters and at
	at          int  // index among the fields
}

// fieldsOf lists the JSON fields of a struct type in the order of their declaration, with the fields of an
// embedded struct in its place. OpenAPI documents and checks use it; encoding/json itself decodes.
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

// names indexes the fields of a struct by their JSON names.
type names struct {
	exact map[string]field
	all   []field
}

var namesOf sync.Map // type of a struct -> *names

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

// maxFold is the largest number of bytes of a character that folds to an ASCII letter: the Kelvin sign, which
// is another case of k, has three.
const maxFold = 3

// find returns the field that encoding/json sets for a name. name is the text between the name's quotes, with
// its escapes.
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

// maxFaults is the largest number of listed faults of one body.
const maxFaults = 20

// faultsOf checks a valid JSON body against the type of v and returns at most maxFaults fields that do not
// fit. With strict it also returns unknown fields, and repeated fields, because the decoder would take only
// the last value. Because a body may be large and hostile, faultsOf goes over the text once, decodes only the
// values that may not fit, and quotes at most maxErrorBytes of the text in each fault.
func faultsOf(body []byte, v any, strict bool) []api.FieldError {
	w := checker{scanner: scanner{text: body}, strict: strict}
	w.value(reflect.TypeOf(v))
	return w.faults
}

type checker struct {
	scanner
	strict  bool
	deep    bool   // looks only for raw JSON that is nested too deep; the text may be invalid
	path    []byte // of the present value, such as steps[1].delay
	faults  []api.FieldError
	scratch map[reflect.Type]reflect.Value // for each type, a pointer to the value that leaf decodes into
}

func (w *checker) full() bool { return len(w.faults) >= maxFaults }

func (w *checker) fault(format string, args ...any) {
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

// ownDecoder reports whether a type has its own decoder.
func ownDecoder(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(jsonUnmarshaler) || reflect.PointerTo(t).Implements(textUnmarshaler)
}

// value checks the next value against a type.
func (w *checker) value(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first, kind := w.peek(), t.Kind()
	switch {
	case kind == reflect.Map && first == '{' && t.Elem().Kind() == reflect.String:
		w.mapping(t.Elem()) // also for api.Strings, because leaf accepts a null, which the decoder of api.Strings drops
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

func (w *checker) object(fields *names) {
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

func (w *checker) mapping(t reflect.Type) {
	above := len(w.path)
	for name := range w.members() {
		if !w.deep && text.LoneSurrogate(name) >= 0 {
			w.fault(loneSurrogateFault)
		}
		w.enter(name)
		w.value(t)
		if w.path = w.path[:above]; w.full() {
			return
		}
	}
}

func (w *checker) array(t reflect.Type) {
	above := len(w.path)
	for i := range w.elements() {
		w.path = append(strconv.AppendInt(append(w.path, '['), int64(i), 10), ']')
		w.value(t)
		if w.path = w.path[:above]; w.full() {
			return
		}
	}
}

// maxName limits the bytes of a name in a fault; the names of all fields are shorter. maxErrorBytes limits
// the part of a fault's text that may repeat the body.
const (
	maxName       = 128
	maxErrorBytes = 256
)

// enter appends a name to the path.
func (w *checker) enter(name []byte) {
	if len(w.path) > 0 {
		w.path = append(w.path, '.')
	}
	begin := len(w.path)
	if w.path = unquoted(w.path, name, maxName); len(w.path) > begin+maxName {
		w.path = append(w.path[:begin], text.Cut(w.path[begin:], maxName)...)
	}
}

const loneSurrogateFault = "contains half of a surrogate pair, which is not valid text"

// leaf checks a value as a whole, without a visit to its parts.
func (w *checker) leaf(t reflect.Type) {
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
		w.fault(loneSurrogateFault)
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
		w.fault("expected %s, got %s", typeWord(t), text.Cut(mismatch.Value, maxErrorBytes))
	case err != nil:
		w.fault("%s", text.Cut(strings.TrimPrefix(err.Error(), "json: "), maxErrorBytes))
	}
}

// fits reports whether encoding/json certainly accepts a value for a type. It does not decode the value,
// because there are lists of millions of values.
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

// typeWord names the JSON form of a type.
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
