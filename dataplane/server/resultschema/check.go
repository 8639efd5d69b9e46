package resultschema

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/corvo/corvo/api/text"
)

// These constants bound the report about a result that does not match its schema.
const (
	MaxMismatches = 20  // the rest is counted
	maxReason     = 300 // bytes of a path or a reason, which may quote the result
)

// Mismatch is one place where a result does not match its schema.
type Mismatch struct {
	Path   string `json:"path"` // a JSON pointer, cut to maxReason; "" is the whole result
	Reason string `json:"reason"`
}

// String formats the mismatch for people.
func (m Mismatch) String() string {
	if m.Path == "" {
		return m.Reason
	}
	return m.Path + ": " + m.Reason
}

// Check validates a result against the schema; an empty result counts as null. It returns at most
// MaxMismatches mismatches, ordered by path, and the number of further ones. A result that cannot be parsed
// or needs too much work is one mismatch of the whole result.
func (s *Schema) Check(result []byte) (mismatches []Mismatch, more int) {
	if len(result) == 0 {
		result = []byte("null")
	}
	doc, err := parse(result)
	if err != nil {
		return []Mismatch{{Reason: err.Error()}}, 0
	}
	err = s.validate(doc)
	if err == nil {
		return nil, 0
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Mismatch{{Reason: err.Error()}}, 0
	}
	all := mismatchesOf(invalid)
	if n := len(all); n > MaxMismatches {
		return all[:MaxMismatches], n - MaxMismatches
	}
	return all, 0
}

// errTooMuch reports a check that was ended because its work exceeded maxWork.
var errTooMuch = errors.New("needs too much work to check: make the result smaller or the schema simpler")

func (s *Schema) validate(doc any) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meter.begin()
	defer func() {
		if r := recover(); r != nil {
			if r != any(exhausted{}) {
				panic(r)
			}
			err = errTooMuch
		}
	}()
	return s.compiled.Validate(doc)
}

// mismatchesOf returns the causes without causes of their own, because the others only repeat them. It orders
// them by path and drops repeated ones.
func mismatchesOf(e *jsonschema.ValidationError) []Mismatch {
	var all []Mismatch
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && e.ErrorKind != nil {
			all = append(all, Mismatch{Path: pointer(e.InstanceLocation), Reason: leafReason(e)})
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	slices.SortFunc(all, func(a, b Mismatch) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Reason, b.Reason))
	})
	return slices.Compact(all)
}

// leafReason returns the library's text for one cause.
func leafReason(e *jsonschema.ValidationError) string {
	unit := (&jsonschema.ValidationError{
		SchemaURL: e.SchemaURL, ErrorKind: e.ErrorKind, InstanceLocation: e.InstanceLocation,
	}).BasicOutput()
	return text.Cut(unit.Error.String(), maxReason)
}

func pointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return text.Cut(b.String(), maxReason)
}

// reason returns the first cause for which a schema is invalid, without the internal name of the schema.
func reason(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var cause *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &cause) {
		if all := mismatchesOf(cause); len(all) > 0 {
			return all[0].Path + ": " + all[0].Reason
		}
	}
	return text.Cut(strings.ReplaceAll(err.Error(), location, ""), maxReason)
}
