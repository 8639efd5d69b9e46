package server

import (
	"bytes"
	"encoding/json"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fault"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/store"
)

// faults collects everything that is wrong with a request. Its zero value is empty.
type faults struct{ fault.List }

// add records a value that is not valid.
func (f *faults) add(field, format string, args ...any) { f.Invalid(field, format, args...) }

// unsupported records a documented value or change that is not implemented yet.
func (f *faults) unsupported(field, format string, args ...any) {
	f.Add(api.Unsupported, field, format, args...)
}

func (f *faults) err() error { return f.Err() }

// name checks the name of an organisation, a namespace or a host. An id is never a valid name, because it
// contains an underscore.
func (f *faults) name(name string) {
	ok := name != "" && len(name) <= store.MaxName && 'a' <= name[0] && name[0] <= 'z'
	for i := range len(name) {
		c := name[i]
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		f.add("name", "%s is not a name: it takes 1 to %d of a-z, 0-9 and -, the first a letter", text.Quote(name), store.MaxName)
	}
}

// asks reports whether a raw value asks for anything. null and empty or zero values do not, so that a client
// may write every field it knows.
func asks(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "0", `""`, "{}", "[]", "false":
		return false
	}
	return true
}
