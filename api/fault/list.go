// Package fault collects the faults of a request, so that a client learns of all of them
// at once. Servers, the checks of ops and the search filters share it; each adds only the
// checks of its own fields. It may import api and the standard library.
package fault

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

const (
	// MaxListed bounds the fields that a refusal lists. The refusal counts the other fields.
	MaxListed = 100
	// maxSaid bounds the fields that the message of a refusal repeats.
	maxSaid = 3
)

// List holds the faults of one request by field. The zero value is a request without faults and costs
// nothing.
type List struct {
	code    api.Code // of the gravest fault
	fields  map[string]string
	more    int // beyond MaxListed
	details map[string]any
}

// gravity orders the codes of the faults that a request has by itself, before anything looks at the state.
// The gravest code of a list is the code of its error.
var gravity = map[api.Code]int{api.Unsupported: 1, api.InvalidCron: 2, api.InvalidFilter: 3, api.PayloadTooLarge: 4, api.ValidationError: 5}

// Add records a fault of a field. A code that gravity lacks is the least grave. The text continues the
// field's name, as in "is missing". For a field Add keeps only the text of the first fault, because that
// fault may cause the later ones; the code of each fault counts.
func (l *List) Add(code api.Code, field, format string, args ...any) {
	if l.code == "" || gravity[code] > gravity[l.code] {
		l.code = code
	}
	if _, known := l.fields[field]; known {
		return
	}
	if len(l.fields) == MaxListed {
		l.more++
		return
	}
	if l.fields == nil {
		l.fields = map[string]string{}
	}
	l.fields[field] = fmt.Sprintf(format, args...)
}

// Invalid records a fault with the code VALIDATION_ERROR: the value can never be accepted.
func (l *List) Invalid(field, format string, args ...any) {
	l.Add(api.ValidationError, field, format, args...)
}

// Detail adds a detail to the error, beside the fields. It is no fault by itself.
func (l *List) Detail(name string, value any) {
	if l.details == nil {
		l.details = map[string]any{}
	}
	l.details[name] = value
}

// Any reports whether the list has a fault.
func (l *List) Any() bool { return l.code != "" }

// Err returns the faults, sorted by field, as one *api.Error, or nil if there are none.
func (l *List) Err() error {
	if !l.Any() {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(l.fields), inOrder)
	listed := make([]api.FieldError, len(names))
	var said []string
	for i, name := range names {
		listed[i] = api.FieldError{Field: name, Error: l.fields[name]}
		if i < maxSaid {
			said = append(said, name+" "+l.fields[name])
		}
	}
	message := strings.Join(said, "; ")
	if rest := len(names) - len(said) + l.more; rest > 0 {
		message += fmt.Sprintf("; and %d more", rest)
	}
	l.Detail("fields", listed)
	e := api.Errorf(l.code, "%s", message)
	e.Details = l.details
	return e
}

// inOrder compares fields: elements of a list by their indexes, all others as text.
func inOrder(a, b string) int {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	for at > 0 && digit(a[at-1]) {
		at--
	}
	if at > 0 && a[at-1] == '[' {
		if n, m := digits(a[at:]), digits(b[at:]); n != m {
			return cmp.Compare(n, m) // an index has no leading zeros
		}
	}
	return strings.Compare(a, b)
}

// digits counts the digits that a text begins with.
func digits(s string) (n int) {
	for n < len(s) && digit(s[n]) {
		n++
	}
	return n
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
