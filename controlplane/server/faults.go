package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
)

// faults collects all that is wrong with a request, so that a client learns of
// everything at once. The zero value is a request without faults.
type faults struct {
	fields  []api.FieldError
	invalid bool // some can never be; else all are only not built
}

// add reports a value that cannot be.
func (f *faults) add(field, format string, args ...any) {
	f.invalid = true
	f.fields = append(f.fields, api.FieldError{Field: field, Error: fmt.Sprintf(format, args...)})
}

// unsupported reports a documented value that is not built.
func (f *faults) unsupported(field, format string, args ...any) {
	f.fields = append(f.fields, api.FieldError{Field: field, Error: fmt.Sprintf(format, args...)})
}

// err is the faults as one answer, nil when there are none.
func (f *faults) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	texts := make([]string, len(f.fields))
	for i, e := range f.fields {
		texts[i] = e.Field + ": " + e.Error
	}
	code := api.Unsupported
	if f.invalid {
		code = api.ValidationError
	}
	e := api.Errorf(code, "%s", strings.Join(texts, "; "))
	e.Details = map[string]any{"fields": f.fields}
	return e
}

// name checks the name of an organisation, a namespace or a host. An id never is
// one: it has an underscore.
func (f *faults) name(name string) {
	ok := name != "" && len(name) <= store.MaxName && 'a' <= name[0] && name[0] <= 'z'
	for i := range len(name) {
		c := name[i]
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		f.add("name", "%s is not a name: it takes 1 to %d of a-z, 0-9 and -, the first a letter", excerpt(name), store.MaxName)
	}
}

// excerpt is the start of a refused value, for a message.
func excerpt(text string) string {
	const most = 64
	if len(text) > most {
		return fmt.Sprintf("%.*q...", most, text)
	}
	return fmt.Sprintf("%q", text)
}

// asks says whether a raw value asks for anything: null, and what is empty or 0,
// does not, for clients that write every field they know.
func asks(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "0", `""`, "{}", "[]", "false":
		return false
	}
	return true
}
