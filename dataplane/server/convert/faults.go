package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/corvo/corvo/api"
)

const (
	maxFaults      = 100 // fields listed in an answer; the rest is counted
	messageFaults  = 3   // of them in its message
	maxQuotedBytes = 64  // of a refused value in a message
)

// Faults collects all that is wrong with a request, by field, so that a client
// learns of everything at once. The zero value is a request without faults.
type Faults struct {
	scope  scope
	code   api.Code // of the gravest fault
	fields map[string]string
	more   int // beyond maxFaults
}

// scope is the item of a plural request that is looked at now: list[index], or
// list.name; none when list is "". It is spelled out only when it has a fault.
type scope struct {
	list  string
	index int
	name  string
}

func (s scope) qualify(field string) string {
	switch {
	case s.list == "":
		return field
	case s.name != "":
		return s.list + "." + s.name + "." + field
	}
	return fmt.Sprintf("%s[%d].%s", s.list, s.index, field)
}

// gravity orders the codes a request can be refused with before anything looks
// at the state: the gravest one is the answer's.
var gravity = map[api.Code]int{api.Unsupported: 1, api.InvalidCron: 2, api.PayloadTooLarge: 3, api.ValidationError: 4}

func (f *Faults) add(code api.Code, field, format string, args ...any) {
	if gravity[code] > gravity[f.code] {
		f.code = code
	}
	field = f.scope.qualify(field)
	if f.fields == nil {
		f.fields = make(map[string]string)
	}
	if _, known := f.fields[field]; known {
		return // the first fault of a field may cause later ones
	}
	if len(f.fields) == maxFaults {
		f.more++
		return
	}
	f.fields[field] = fmt.Sprintf(format, args...)
}

// Invalid reports a value that cannot be.
func (f *Faults) Invalid(field, format string, args ...any) {
	f.add(api.ValidationError, field, format, args...)
}

// TooLong reports a document over its bound.
func (f *Faults) TooLong(field string, size, most int) {
	f.add(api.PayloadTooLarge, field, "has %d bytes, at most %d are taken", size, most)
}

// Unsupported reports a documented field that is not built.
func (f *Faults) Unsupported(field string) {
	f.add(api.Unsupported, field, "is not supported by this server yet: leave it out")
}

// Any says whether there are any.
func (f *Faults) Any() bool { return f.code != "" }

// Err is the faults as one answer, nil when there are none.
func (f *Faults) Err() error {
	if !f.Any() {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(f.fields), inOrder)
	listed := make([]api.FieldError, len(names))
	var said []string
	for i, name := range names {
		listed[i] = api.FieldError{Field: name, Error: f.fields[name]}
		if i < messageFaults {
			said = append(said, name+" "+f.fields[name])
		}
	}
	message := strings.Join(said, "; ")
	if rest := len(names) - len(said) + f.more; rest > 0 {
		message += fmt.Sprintf("; and %d more", rest)
	}
	e := api.Errorf(f.code, "%s", message)
	e.Details = map[string]any{"fields": listed}
	return e
}

// inOrder compares fields: elements of a list by their places in it, others as text.
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
			return cmp.Compare(n, m) // there are no zeros before the first
		}
	}
	return strings.Compare(a, b)
}

// digits is how many digits a text begins with.
func digits(s string) (n int) {
	for n < len(s) && digit(s[n]) {
		n++
	}
	return n
}

// Excerpt is the start of a refused value, for a message.
func Excerpt(s string) string {
	if len(s) > maxQuotedBytes {
		return fmt.Sprintf("%.*q...", maxQuotedBytes, s)
	}
	return fmt.Sprintf("%q", s)
}

// all adds the errors of a check of one field.
func (f *Faults) all(field string, errs []error) {
	for i, err := range errs {
		name := field
		if i > 0 {
			name = fmt.Sprintf("%s (%d)", field, i+1)
		}
		f.Invalid(name, "%v", err)
	}
}
