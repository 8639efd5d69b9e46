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

// Decode decodes the body of a request into v, a pointer. An empty body and one of white space count as {}.
// null counts as absent, also for a json.RawMessage, and so does "" in an optional field of any type. After
// an error v may be partly set.
//
// Text that is not JSON is PARSE_ERROR with the position of the fault, and so is invalid UTF-8.
// VALIDATION_ERROR lists the first maxFaults faults: fields with a value of the wrong type, raw JSON values
// nested deeper than text.MaxNesting, text with a lone surrogate and, on Strict routes, fields that v does
// not have or that are repeated. Only raw JSON may contain lone surrogates, and it stays unchanged. Weigh
// refuses a body that would need many times its size in memory.
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

// decodeError returns the reason why encoding/json refused a body.
func decodeError(err error, body []byte, v any, strict bool) error {
	// A type with its own decoder may report a syntax error although the body is valid JSON.
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) && !json.Valid(body) {
		if len(bytes.TrimSpace(body)) == 0 {
			return nil // white space only counts as an empty body
		}
		if err := text.CheckNesting(body, maxNesting); err != nil {
			return tooDeep(err, body, v)
		}
		return badJSON(int(syntax.Offset), "the body is not JSON at byte %d: %s", syntax.Offset, syntax.Error())
	}
	if faults := faultsOf(body, v, strict); len(faults) > 0 {
		return invalid(faults)
	}
	return api.Wrap(err, api.ValidationError, "the body does not fit: "+text.Cut(strings.TrimPrefix(err.Error(), "json: "), maxErrorBytes))
}

// tooDeep returns an error for a body that is nested deeper than encoding/json decodes. It names the fields
// whose raw JSON is too deep, or else the body.
func tooDeep(err error, body []byte, v any) error {
	w := checker{scanner: scanner{text: body}, deep: true}
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

// invalid returns a VALIDATION_ERROR that names the given faults.
func invalid(faults []api.FieldError) error {
	texts := make([]string, len(faults))
	for i, f := range faults {
		texts[i] = f.Field + ": " + f.Error
	}
	e := api.Errorf(api.ValidationError, "%s", strings.Join(texts, "; "))
	e.Details = map[string]any{"fields": faults}
	return e
}
