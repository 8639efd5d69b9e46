package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// Decode reads body, a request's, into v, a pointer. No body is {}, and null
// is as good as absent: for a json.RawMessage too; so is "" in an optional field,
// whatever its type. Text that is no JSON is
// PARSE_ERROR with the position of the fault; values of the wrong type are
// VALIDATION_ERROR that names every such field, and so are raw JSON that is nested
// deeper than text.MaxNesting and, on Strict routes, fields v does not have. Text that
// is not valid Unicode is refused, not replaced; only raw JSON may hold half surrogate pairs, and passes as it is.
// What would take many times its size in memory is refused before it does, by Weigh.
func Decode(r *http.Request, body []byte, v any) error {
	if len(body) == 0 {
		return nil
	}
	if !utf8.Valid(body) {
		at := text.InvalidUTF8(body)
		return badJSON(at, "the body is not valid UTF-8 at byte %d", at)
	}
	if err := Weigh(body, v); err != nil {
		return err
	}
	deep := text.CheckNesting(body, text.MaxNesting) != nil
	c := callOf(r.Context())
	strict := c != nil && c.endpoint != nil && c.endpoint.Strict
	if err := json.Unmarshal(body, v); err != nil {
		if !json.Valid(body) {
			return decodeError(err, body, v, strict)
		}
		nulled := blanksToNull(body, v)
		if changed := len(nulled) > len(body); !changed || json.Unmarshal(nulled, v) != nil {
			return decodeError(err, nulled, v, strict)
		}
		body = nulled
	}
	if strict || deep || text.LoneSurrogate(body) >= 0 {
		if faults := faultsOf(body, v, strict); len(faults) > 0 {
			return invalid(faults)
		}
	}
	if c != nil && c.endpoint != nil {
		c.endpoint.warn(c, body, v)
	}
	if bytes.Contains(body, []byte("null")) {
		dropNulls(v)
	}
	return nil
}

// decodeError says what is wrong with a body that encoding/json refused.
func decodeError(err error, body []byte, v any, strict bool) error {
	// A type that decodes itself may find its part no JSON, where the body is.
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) && !json.Valid(body) {
		if len(bytes.TrimSpace(body)) == 0 {
			return nil // as good as no body
		}
		if err := text.CheckNesting(body, maxNesting); err != nil {
			return tooDeep(err, body, v)
		}
		return badJSON(int(syntax.Offset), "the body is not JSON at byte %d: %s", syntax.Offset, syntax.Error())
	}
	if faults := faultsOf(body, v, strict); len(faults) > 0 {
		return invalid(faults)
	}
	return api.Wrap(err, api.ValidationError, "the body does not fit: "+text.Cut(strings.TrimPrefix(err.Error(), "json: "), maxSaid))
}

// tooDeep names the fields with raw JSON of a body that encoding/json goes not all the way
// into; the body where it is none of them.
func tooDeep(err error, body []byte, v any) error {
	w := walk{scanner: scanner{text: body}, deep: true}
	if w.value(reflect.TypeOf(v)); len(w.faults) == 0 {
		w.path = nil
		w.fault("%v", err)
	}
	return invalid(w.faults)
}

func badJSON(position int, format string, args ...any) error {
	e := api.Errorf(api.ParseError, format, args...)
	e.Details = map[string]any{"position": position}
	return e
}

// invalid names every field that does not fit.
func invalid(faults []api.FieldError) error {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.Field + ": " + f.Error
	}
	e := api.Errorf(api.ValidationError, "%s", strings.Join(texts, "; "))
	e.Details = map[string]any{"fields": faults}
	return e
}
