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

// WarningHeader names fields of the body that were ignored or that may not mean what the client intended.
// Routes that are not Strict send it, for a sample of the bodies.
const WarningHeader = "Corvo-Warning"

const (
	maxWarned       = 3   // fields that a WarningHeader names
	maxWarningBytes = 200 // of a WarningHeader, which is ASCII
	maxWarnedName   = 32  // bytes of a name
	maxFound        = 64  // the check of a body stops after so many unknown and repeated fields, even if it names fewer than maxWarned
)

// Checking a body for warnings costs 15 to 40 % of decoding it (ADR 0054). So a busy route checks only a
// sample: a check uses up checkPause of the route's time, and as much again for each whole checkBytes of the
// body. A route keeps at most checkBurst of unused time.
const (
	checkPause = 2 * time.Millisecond
	checkBytes = 1 << 10
	checkBurst = time.Second
)

// checkSampler limits how often a route checks bodies for warnings. The zero checkSampler is ready for
// use.
type checkSampler struct{ used atomic.Int64 } // the route's time is used up until then, in Unix nanoseconds

// take reports whether the route may check a body of size bytes now, and counts the check. Of two concurrent
// calls it may deny one although there is time for both.
func (l *checkSampler) take(now time.Time, size int) bool {
	used, at := l.used.Load(), now.UnixNano()
	if used > at {
		return false
	}
	pause := int64(checkPause) * int64(1+size/checkBytes)
	return l.used.CompareAndSwap(used, max(used, at-int64(checkBurst))+pause)
}

// warn names up to maxWarned fields of a body that v does not have or that are repeated, in the WarningHeader
// of the response, and counts the unknown ones. The body must have been decoded into v without a fault. A
// route without a Request, such as the RPC, decodes only parts of bodies and gets no warnings.
func (e *endpoint) warn(c *call, body []byte, v any) {
	if e.Strict || e.Request == nil || !e.checks.take(c.start, len(body)) {
		return
	}
	o := warner{scanner: scanner{text: body}}
	o.value(reflect.TypeOf(v))
	if len(o.warnings) == 0 {
		return
	}
	e.metrics.UnknownFields(o.unknown)
	all := ""
	for _, warning := range o.warnings {
		if all != "" {
			warning = ", " + warning
		}
		if len(all)+len(warning) <= maxWarningBytes {
			all += warning
		}
	}
	c.Header().Set(WarningHeader, all)
}

// warner goes through a valid text and collects warnings about its fields.
type warner struct {
	scanner
	warnings []string // at most maxWarned
	unknown  int      // number of warnings about unknown fields
	found    int      // unknown and repeated fields so far, at most maxFound
}

func (o *warner) full() bool { return len(o.warnings) >= maxWarned || o.found >= maxFound }

// value goes over the next value, which is decoded into the type t.
func (o *warner) value(t reflect.Type) {
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

func (o *warner) object(fields *names) {
	had := make([]bool, len(fields.all))
	for name := range o.members() {
		f, ok := fields.find(name)
		switch {
		case !ok:
			if o.add("unknown field ", name, fields) {
				o.unknown++
			}
			o.skip()
		case had[f.at]:
			o.add("repeated field ", name, nil)
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

// add adds a warning about a field unless there is an equal one, and reports whether it did. If fields are
// given, the warning suggests the nearest of them.
func (o *warner) add(what string, quoted []byte, fields *names) bool {
	o.found++
	name := string(unquoted(nil, quoted, maxName))
	warning := what + strconv.QuoteToASCII(text.Cut(name, maxWarnedName))
	if fields != nil {
		known := make([]string, len(fields.all))
		for i := range fields.all {
			known[i] = fields.all[i].name
		}
		if near := text.Nearest(strings.ToLower(name), known); near != "" {
			warning += "; did you mean " + strconv.Quote(near) + "?"
		}
	}
	if slices.Contains(o.warnings, warning) {
		return false
	}
	o.warnings = append(o.warnings, warning)
	return true
}
