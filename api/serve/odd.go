package serve

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api/text"
)

// WarningHeader says on the answers of routes that are not Strict which fields of the
// body did nothing, or may not mean what the client thinks.
const WarningHeader = "Corvo-Warning"

const (
	maxWarned       = 3   // fields are named in one WarningHeader,
	maxWarningBytes = 200 // in so many bytes, all of them ASCII
	maxWarnedName   = 32  // bytes of a name
	maxOdd          = 64  // fields of a body are compared with what is said already
)

// Looking at a body costs 15 to 40 % of decoding it (ADR 0054). A route therefore looks at
// each body only while there are few: a look uses up lookPause, and as much again for each
// lookBytes of the body, and at most lookBurst of unused time is kept.
const (
	lookPause = 2 * time.Millisecond
	lookBytes = 1 << 10
	lookBurst = time.Second
)

// looks shares out how often a route looks at bodies. The zero looks is ready for use.
type looks struct{ used atomic.Int64 } // nanoseconds of the clock up to which time is used up

// take says whether the route may look at a body of so many bytes now. Of two requests
// that ask at the same time one may be denied.
func (l *looks) take(now time.Time, size int) bool {
	used, at := l.used.Load(), now.UnixNano()
	if used > at {
		return false
	}
	pause := int64(lookPause) * int64(1+size/lookBytes)
	return l.used.CompareAndSwap(used, max(used, at-int64(lookBurst))+pause)
}

// warn names the fields of a body that v does not have, and those that are there twice, in
// the WarningHeader of the answer, and counts the unknown ones. The body was decoded into v
// without a fault. A route without a Request, such as the RPC, decodes only parts of bodies.
func (e *endpoint) warn(c *call, body []byte, v any) {
	if e.Strict || e.Request == nil || !e.looks.take(c.start, len(body)) {
		return
	}
	o := odd{scanner: scanner{text: body}}
	o.value(reflect.TypeOf(v))
	if len(o.said) == 0 {
		return
	}
	e.metrics.UnknownFields(o.unknown)
	all := ""
	for _, said := range o.said {
		if all != "" {
			said = ", " + said
		}
		if len(all)+len(said) <= maxWarningBytes {
			all += said
		}
	}
	c.Header().Set(WarningHeader, all)
}

// odd goes through a valid text and collects what to say of its fields.
type odd struct {
	scanner
	said    []string // at most maxWarned
	unknown int      // of them
	found   int      // unknown and repeated fields so far, at most maxOdd
}

func (o *odd) full() bool { return len(o.said) >= maxWarned || o.found >= maxOdd }

// value goes over the value that is next, of a type.
func (o *odd) value(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	first, kind := o.peek(), t.Kind()
	switch {
	case ownDecoder(t):
		o.skip()
	case kind == reflect.Struct && first == '{':
		o.object(fieldNames(t))
	case kind == reflect.Map && first == '{' && holdsParts(t.Elem()):
		for range o.members() {
			if o.value(t.Elem()); o.full() {
				return
			}
		}
	case kind == reflect.Slice && first == '[' && holdsParts(t.Elem()):
		for range o.elements() {
			if o.value(t.Elem()); o.full() {
				return
			}
		}
	default:
		o.skip()
	}
}

func (o *odd) object(fields *names) {
	had := make([]bool, len(fields.all))
	for name := range o.members() {
		f, ok := fields.find(name)
		switch {
		case !ok:
			if o.say("unknown field ", name, fields) {
				o.unknown++
			}
			o.skip()
		case had[f.at]:
			o.say("repeated field ", name, nil)
			o.skip()
		default:
			had[f.at] = true
			o.value(f.typ)
		}
		if o.full() {
			return
		}
	}
}

// say adds a sentence about a field unless it is said already, with the field that is
// probably meant if there are fields to choose from.
func (o *odd) say(what string, quoted []byte, fields *names) bool {
	o.found++
	name := string(unquoted(nil, quoted, maxName))
	said := what + strconv.QuoteToASCII(text.Cut(name, maxWarnedName))
	if fields != nil {
		known := make([]string, len(fields.all))
		for i := range fields.all {
			known[i] = fields.all[i].name
		}
		if near := text.Nearest(strings.ToLower(name), known); near != "" {
			said += "; did you mean " + strconv.Quote(near) + "?"
		}
	}
	if slices.Contains(o.said, said) {
		return false
	}
	o.said = append(o.said, said)
	return true
}
