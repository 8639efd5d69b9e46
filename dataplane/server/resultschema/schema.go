package resultschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/dataplane/job"
)

// These constants bound a schema, besides its size. Ordinary schemas stay far below them. maxNumber also
// bounds the numbers in a result.
const (
	maxDepth    = 64      // levels of objects and lists in the schema
	maxParts    = 2000    // objects in the schema
	maxBooleans = 5000    // true and false in the schema, because each can be a schema too
	maxPatterns = 100     // regular expressions in the schema
	maxPattern  = 1 << 10 // bytes of one regular expression
	maxProgram  = 20_000  // instructions of all regular expressions together; x{9} has those of nine x
	maxNumber   = 400     // characters of a number and its largest exponent; larger numbers cannot be compared in reasonable time
)

// location is the internal name of a schema. Nothing else has it.
const location = "https://corvo.invalid/result_schema"

// Schema is a compiled schema that any number of goroutines may use.
type Schema struct {
	free     chan struct{} // full during a check: the meter is part of the compiled schema
	compiled *jsonschema.Schema
	meter    *meter

	instructions int // of its expressions
}

// Compile compiles a schema of draft 7, 2019-09 or 2020-12; without $schema it is 2020-12. It refuses a
// schema that exceeds a bound or refers to other documents. Its errors are written for the schema's author.
func Compile(data []byte) (*Schema, error) {
	if len(data) > job.MaxResultSchema {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(data), job.MaxResultSchema)
	}
	return compiled.get(data, compile)
}

func compile(data []byte) (*Schema, error) {
	doc, err := parse(data)
	if err != nil {
		return nil, err
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("is not a schema: it must be an object, true or false")
	}
	var parts survey
	if err := parts.look(doc, 1); err != nil {
		return nil, err
	}
	s := &Schema{free: make(chan struct{}, 1), meter: &meter{}, instructions: parts.program}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return newPattern(s.meter, text) })
	var objects []*jsonschema.Schema
	c.RegisterVocabulary(collector(&objects))
	c.AssertVocabs()
	if err := c.AddResource(location, doc); err != nil {
		return nil, fmt.Errorf("is not a schema: %s", reason(err))
	}
	if s.compiled, err = c.Compile(location); err != nil {
		var outside *jsonschema.LoadURLError
		if errors.As(err, &outside) {
			return nil, fmt.Errorf("refers to %s, which it does not contain: a result schema cannot refer to other documents, so copy the part into its $defs", text.Cut(outside.URL, maxReason))
		}
		return nil, fmt.Errorf("is not a schema: %s", reason(err))
	}
	if v := s.compiled.DraftVersion; v < 7 {
		return nil, fmt.Errorf("is of draft %d; use 7, 2019-09 or 2020-12", v)
	}
	if err := prepare(objects, s.meter); err != nil {
		return nil, err
	}
	return s, nil
}

// collector returns a vocabulary that collects the objects of a schema while the library compiles them, because
// the compiled schema leads to some objects only by anchors that the library does not export.
func collector(all *[]*jsonschema.Schema) *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: location + "/work",
		Compile: func(c *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			*all = append(*all, c.Enqueue(nil)) // the object itself, which is being compiled
			return nil, nil
		},
	}
}

// nowhere loads no document. The library has the standard's metaschemas itself.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("other documents are not read") }

// survey counts the parts of a schema and refuses a schema with too many.
type survey struct{ parts, booleans, patterns, program int }

func (s *survey) look(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		if s.parts++; s.parts > maxParts {
			return fmt.Errorf("has more than %d objects", maxParts)
		}
		for name, value := range v {
			if err := s.regexps(name, value); err != nil {
				return err
			}
			if err := s.look(value, depth+1); err != nil {
				return err
			}
		}
	case bool:
		if s.booleans++; s.booleans > maxBooleans {
			return fmt.Errorf("has more than %d booleans", maxBooleans)
		}
	case []any:
		for _, value := range v {
			if err := s.look(value, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// regexps counts and checks the regular expressions of a keyword. It also counts the text of a property that
// has a keyword's name and form.
func (s *survey) regexps(keyword string, value any) error {
	var found []string
	switch value := value.(type) {
	case string:
		if keyword == "pattern" {
			found = append(found, value)
		}
	case map[string]any:
		if keyword == "patternProperties" {
			for pattern := range value {
				found = append(found, pattern)
			}
		}
	}
	for _, pattern := range found {
		if len(pattern) > maxPattern {
			return fmt.Errorf("has a regular expression of %d bytes; at most %d are allowed", len(pattern), maxPattern)
		}
		if tree, err := syntax.Parse(pattern, syntax.Perl); err == nil { // the library reports the error with its place
			s.program += instructions(tree, maxProgram)
		}
		if s.program > maxProgram {
			return fmt.Errorf("has regular expressions of more than %d instructions in all, in which x{9} counts as nine x: make the counts of repetitions smaller, or use maxLength", maxProgram)
		}
	}
	if s.patterns += len(found); s.patterns > maxPatterns {
		return fmt.Errorf("has more than %d regular expressions", maxPatterns)
	}
	return nil
}

// parse decodes one JSON document. It refuses text after the document, and numbers that are too long to
// compute with.
func parse(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has something after its end")
	}
	if path, ok := unwieldy(doc); ok {
		return nil, fmt.Errorf("has a number at %q that is too long to be compared: use at most %d digits, and an exponent up to %d", pointer(path), maxNumber, maxNumber)
	}
	return doc, nil
}

// unwieldy returns the path of a number that would take a check very long to compute with exactly, because a
// few bytes can stand for a billion digits. It builds the path only for such a number, because building one
// for each value would take quadratic time.
func unwieldy(v any) (path []string, found bool) {
	switch v := v.(type) {
	case json.Number:
		text := string(v)
		if len(text) > maxNumber {
			return nil, true
		}
		if i := strings.IndexAny(text, "eE"); i >= 0 {
			e, err := strconv.Atoi(text[i+1:])
			return nil, err != nil || e > maxNumber || e < -maxNumber
		}
	case map[string]any:
		for name, value := range v {
			if path, found := unwieldy(value); found {
				return slices.Insert(path, 0, name), true
			}
		}
	case []any:
		for i, value := range v {
			if path, found := unwieldy(value); found {
				return slices.Insert(path, 0, strconv.Itoa(i)), true
			}
		}
	}
	return nil, false
}
