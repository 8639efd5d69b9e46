package convert

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
)

// Faults collects all that is wrong with a request. The zero value is a request without
// faults.
type Faults struct {
	fault.List
	scope scope
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

func (f *Faults) add(code api.Code, field, format string, args ...any) {
	f.Add(code, f.scope.qualify(field), format, args...)
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
