package resultschema

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/corvo/corvo/api/text"
)

// These constants bound the report about a result that does not match its schema.
const (
	MaxMismatches = 20  // further ones are only counted
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
// or needs too much work is one mismatch of the whole result. Check waits while another goroutine checks
// against the same schema. It returns an error only if ctx ends.
func (s *Schema) Check(ctx context.Context, result []byte) (mismatches []Mismatch, more int, err error) {
	if len(result) == 0 {
		result = []byte("null")
	}
	doc, err := parse(result)
	if err != nil {
		return []Mismatch{{Reason: err.Error()}}, 0, nil
	}
	select {
	case s.free <- struct{}{}:
		defer func() { <-s.free }()
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	var invalid *jsonschema.ValidationError
	switch err := s.validate(ctx, doc); {
	case err == nil:
		return nil, 0, nil
	case errors.As(err, &invalid):
		mismatches, more = mismatchesOf(invalid)
		return mismatches, more, nil
	case errors.Is(err, errTooMuch):
		return []Mismatch{{Reason: err.Error()}}, 0, nil
	default:
		return nil, 0, err
	}
}

// errTooMuch reports a check that was ended because its work exceeded maxWork.
var errTooMuch = errors.New("needs too much work to check: make the result smaller or the schema simpler")

func (s *Schema) validate(ctx context.Context, doc any) (err error) {
	s.meter.begin(ctx, doc)
	defer func() {
		s.meter.ctx = nil // the request may go before the next check
		switch r := recover().(type) {
		case nil:
		case stopped:
			err = r.err
		default:
			panic(r)
		}
	}()
	return s.compiled.Validate(doc)
}

// maxCauses bounds the causes that are put into words. It is larger than MaxMismatches because some causes
// are repeated.
const maxCauses = 2 * MaxMismatches

// mismatchesOf returns the first MaxMismatches mismatches by path and the number of further ones. It takes
// only the leaves of the tree of causes, because the other causes repeat them, and drops repeated leaves. It
// puts only the first maxCauses leaves into words, because one text can be as long as the schema or the
// result. It counts the further leaves as if none were repeated.
func mismatchesOf(e *jsonschema.ValidationError) (all []Mismatch, more int) {
	var first []*jsonschema.ValidationError
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && e.ErrorKind != nil {
			at := sort.Search(len(first), func(i int) bool {
				return slices.Compare(first[i].InstanceLocation, e.InstanceLocation) > 0
			})
			if first = slices.Insert(first, at, e); len(first) > maxCauses {
				first, more = first[:maxCauses], more+1
			}
		}
		for _, cause := range e.Causes {
			walk(cause)
		}
	}
	walk(e)
	for _, e := range first {
		all = append(all, Mismatch{Path: pointer(e.InstanceLocation), Reason: leafReason(e)})
	}
	slices.SortFunc(all, func(a, b Mismatch) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Reason, b.Reason))
	})
	all = slices.Compact(all)
	if n := len(all); n > MaxMismatches {
		all, more = all[:MaxMismatches], more+n-MaxMismatches
	}
	return all, more
}

// leafReason returns the library's text for one cause.
func leafReason(e *jsonschema.ValidationError) string {
	unit := (&jsonschema.ValidationError{
		SchemaURL: e.SchemaURL, ErrorKind: causeOf(e), InstanceLocation: e.InstanceLocation,
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

// reason returns the first reason why a schema is invalid, without the internal name of the schema.
func reason(err error) string {
	var invalid *jsonschema.SchemaValidationError
	var cause *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &cause) {
		if all, _ := mismatchesOf(cause); len(all) > 0 {
			return all[0].Path + ": " + all[0].Reason
		}
	}
	return text.Cut(strings.ReplaceAll(err.Error(), location, ""), maxReason)
}
