package convert

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
)

// Faults collects all faults of a request. The zero value has none. A conversion that adds a fault returns an
// incomplete value, which the caller must not use; the caller checks Err after its last conversion.
type Faults struct {
	fault.List
	scope scope
}

// scope is the item that is being converted, in a request with several: list[index] or, if it has a name,
// list.name. An empty list means no item. qualify composes the text only for an item with a fault.
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

// Invalid reports an invalid value, as VALIDATION_ERROR. The text continues the field's name, as in "is
// missing".
func (f *Faults) Invalid(field, format string, args ...any) {
	f.add(api.ValidationError, field, format, args...)
}

// TooLong reports a document or text with more bytes than its limit, as PAYLOAD_TOO_LARGE.
func (f *Faults) TooLong(field string, size, most int) {
	f.add(api.PayloadTooLarge, field, "has %d bytes, at most %d are taken", size, most)
}

// Unsupported reports a documented field that is not implemented, as UNSUPPORTED.
func (f *Faults) Unsupported(field string) {
	f.add(api.Unsupported, field, "is not supported by this server yet: leave it out")
}

// all adds the errors of one field's check. It numbers them from the second on, because a List keeps only one
// fault of a field.
func (f *Faults) all(field string, errs []error) {
	for i, err := range errs {
		name := field
		if i > 0 {
			name = fmt.Sprintf("%s (%d)", field, i+1)
		}
		f.Invalid(name, "%v", err)
	}
}
