package resultschema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// chance makes random schemas and values of few names and constants, so that they often match.
type chance struct{ *rand.Rand }

func one[T any](c chance, of ...T) T { return of[c.IntN(len(of))] }

func (c chance) list(most int, make func() any) []any {
	all := []any{}
	for range c.IntN(most + 1) {
		all = append(all, make())
	}
	return all
}

func (c chance) members(most int, make func() any) map[string]any {
	all := map[string]any{}
	for range c.IntN(most + 1) {
		all[c.name()] = make()
	}
	return all
}

func (c chance) name() string { return one(c, "a", "b", "ab", strings.Repeat("long", 40)) }

func (c chance) number() any {
	return json.Number(one(c, "0", "-0.0", "1", "1.0", "10e-1", "2", "1.5", "15e-1", "-3", "1e3", "1000", "1e300", "3e-300"))
}

func (c chance) value(depth int) any {
	switch n := c.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return c.IntN(2) == 0
	case n == 2:
		return c.number()
	case n == 3 || depth == 0:
		return one(c, "", "a", "ab", "aab", "böse", "2020-01-01", strings.Repeat("x", 200))
	case n < 6:
		return c.list(4, func() any { return c.value(depth - 1) })
	default:
		return c.members(4, func() any { return c.value(depth - 1) })
	}
}

// schema makes a schema of any keywords of the three drafts; each draft ignores some of the keywords.
func (c chance) schema(depth int) any {
	if c.IntN(8) == 0 || depth == 0 {
		return one[any](c, true, false, map[string]any{"$ref": c.ref()}, map[string]any{"type": one(c, "string", "integer", "object", "array")})
	}
	s := map[string]any{}
	for range 1 + c.IntN(4) {
		c.keyword(s, func() any { return c.schema(depth - 1) })
	}
	return s
}

func (c chance) ref() string { return fmt.Sprintf("#/$defs/%d", c.IntN(3)) }

func (c chance) keyword(s map[string]any, sub func() any) {
	small := func() any { return c.IntN(4) }
	names := func() any { return []any{c.name()} }
	word := one(c,
		"type", "types", "const", "enum", "format", "$ref", "$dynamicRef", "$recursiveRef",
		"allOf", "anyOf", "oneOf", "not", "if", "then", "else",
		"properties", "patternProperties", "additionalProperties", "propertyNames", "dependentSchemas", "dependentRequired", "dependencies",
		"required", "minProperties", "maxProperties", "unevaluatedProperties",
		"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems",
		"minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum", "multipleOf")
	switch word {
	case "type":
		s["type"] = one(c, "null", "boolean", "number", "integer", "string", "object", "array")
	case "types":
		s["type"] = []any{"object", one(c, "integer", "string", "array")}
	case "const":
		s[word] = c.value(2)
	case "enum":
		s[word] = append(c.list(4, func() any { return c.value(2) }), c.value(2))
	case "format":
		s[word] = one(c, "date", "regex", "uuid")
	case "$ref":
		s[word] = c.ref()
	case "$dynamicRef":
		s[word] = "#here"
	case "$recursiveRef":
		s[word] = "#"
	case "allOf", "anyOf", "oneOf", "prefixItems":
		s[word] = append(c.list(2, sub), sub())
	case "properties", "dependentSchemas", "dependencies":
		s[word] = c.members(3, sub)
	case "patternProperties":
		s[word] = map[string]any{one(c, "a", "^a$", "(a?){9}b", "."): sub()}
	case "dependentRequired":
		s[word] = c.members(2, names)
	case "required":
		s[word] = names()
	case "minProperties", "maxProperties", "minContains", "maxContains", "minItems", "maxItems", "minLength", "maxLength":
		s[word] = small()
	case "uniqueItems":
		s[word] = true
	case "pattern":
		s[word] = one(c, "a", "^a+$", "(a?){20}b", "ö|x$")
	case "minimum", "maximum", "exclusiveMinimum":
		s[word] = c.number()
	case "multipleOf":
		s[word] = json.Number(one(c, "1", "0.5", "3"))
	default:
		s[word] = sub()
	}
}

// document makes a whole schema.
func (c chance) document() []byte {
	s := map[string]any{"$defs": map[string]any{"0": c.schema(3), "1": c.schema(2), "2": map[string]any{"$dynamicAnchor": "here", "items": c.schema(2)}}}
	for range 3 {
		c.keyword(s, func() any { return c.schema(3) })
	}
	if draft := one(c, "", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"); draft != "" {
		s["$schema"] = draft
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

// plain compiles a schema with the library as it is.
func plain(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(location, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(location)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// With its gates the library finds the same results valid as without. For random schemas and results, the
// memory that a check allocates is at most a constant factor of the counted work. Each step of the library
// allocates some, so this shows that the work is counted. The test is not parallel, because it measures the
// memory of the process.
func TestRandomSchemas(t *testing.T) {
	compiled, valid, most, bytes := 0, 0, 0.0, 0.0
	for seed := range uint64(600) {
		c := chance{rand.New(rand.NewPCG(seed, 1))}
		text := c.document()
		s, err := compile(text)
		if err != nil {
			continue
		}
		compiled++
		want := plain(t, text)
		for range 4 {
			doc := c.value(5)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := s.validate(t.Context(), doc)
			runtime.ReadMemStats(&after)
			if expected := want.Validate(doc); (err == nil) != (expected == nil) {
				t.Fatalf("seed %d: %s\n%v\n%v, the library says %v", seed, text, doc, err, expected)
			}
			if err == nil {
				valid++
			}
			spent := float64(maxWork - s.meter.left + 100)
			most = math.Max(most, float64(after.Mallocs-before.Mallocs)/spent)
			bytes = math.Max(bytes, float64(after.TotalAlloc-before.TotalAlloc)/spent)
		}
	}
	if most > 1.3 || bytes > 80 {
		t.Errorf("%.1f allocations and %.0f bytes for a unit of work", most, bytes)
	}
	t.Logf("%d schemas, %d of %d valid; %.1f allocations and %.0f bytes for a unit of work", compiled, valid, 4*compiled, most, bytes)
}

// An expression matches as with package regexp, and has at most the instructions that are counted.
func TestExpressions(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	c := chance{r}
	parts := []string{"a", "b", "ö", ".", "[a-ö]", "[^a]", "\\b", "^", "$", "(?i)A", "\\B", "(?s).", "(?m)^", "(?m)$", "\\s", "(?:)", "\n"}
	var expression func(depth int) string
	expression = func(depth int) string {
		if depth == 0 {
			return one(c, parts...)
		}
		sub := func() string { return expression(depth - 1) }
		switch c.IntN(8) {
		case 0:
			return "(?:" + sub() + "|" + sub() + ")"
		case 1:
			return "(" + sub() + ")*"
		case 2:
			return "(?:" + sub() + ")" + one(c, "+", "?", "{0}", "{2}", "{1,3}", "{2,}", "+?")
		default:
			return sub() + sub()
		}
	}
	for range 3000 {
		text := expression(4)
		want, err := regexp.Compile(text)
		if err != nil {
			continue
		}
		m := &meter{scale: 1, ctx: t.Context()}
		got, err := newPattern(m, text)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		if real, counted := len(got.(*pattern).prog.Inst), instructions(tree, math.MaxInt32); counted < real {
			t.Fatalf("%q has %d instructions, %d counted", text, real, counted)
		}
		for range 5 {
			subject := ""
			for range c.IntN(6) {
				subject += one(c, "a", "b", "A", "ö", " ", "\n", "x")
			}
			m.left = maxWork
			if got.MatchString(subject) != want.MatchString(subject) {
				t.Fatalf("%q and %q: %v", text, subject, !want.MatchString(subject))
			}
		}
	}
}
