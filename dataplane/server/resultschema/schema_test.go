package resultschema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

func TestWhatIsASchema(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, schema, want string }{
		{"an object", `{"type":"object"}`, ""},
		{"true", `true`, ""},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"string"}},"items":[{"$ref":"#/definitions/a"}]}`, ""},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$defs":{"a":{"$recursiveAnchor":true}},"$ref":"#/$defs/a"}`, ""},
		{"2020-12", `{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"string"}}}`, ""},
		{"its own name", `{"$id":"https://example.com/a","$ref":"b","$defs":{"b":{"$id":"b","type":"string"}}}`, ""},
		{"no JSON", `{`, "is not JSON"},
		{"a number", `7`, "is not a schema: it must be an object, true or false"},
		{"an unknown type", `{"type":"text"}`, "is not a schema: /type: "},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#"}`, "is of draft 4; use 7, 2019-09 or 2020-12"},
		{"a remote reference", `{"$ref":"https://example.com/a.json"}`, `refers to https://example.com/a.json, which it does not contain`},
		{"a file", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `refers to file:///etc/passwd, which it does not contain`},
		{"a relative reference", `{"items":{"$ref":"other.json"}}`, "which it does not contain"},
		{"a language of its own", `{"$schema":"https://example.com/meta"}`, "refers to https://example.com/meta"},
		{"a reference into nothing", `{"$ref":"#/$defs/a"}`, "is not a schema"},
		{"the metaschema of draft 7", `{"items":{"$ref":"http://json-schema.org/draft-07/schema#"}}`, ""},
		{"the metaschema of 2020-12", `{"items":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}`, `more than one $dynamicAnchor "meta"`},
		{"a dynamic reference", `{"$dynamicAnchor":"a","items":{"$dynamicRef":"#a"}}`, ""},
		{"an ambiguous one", `{"$dynamicAnchor":"a","items":{"$dynamicRef":"#a"},"contains":{"$id":"b","$dynamicAnchor":"a"}}`, `more than one $dynamicAnchor "a" that a $dynamicRef can mean: use $ref`},
		{"a recursive reference", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}`, ""},
		{"an ambiguous one of 2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"$recursiveRef":"#"},"contains":{"$id":"b","$recursiveAnchor":true}}`, "more than one $recursiveAnchor"},
		{"itself at the same value", `{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"if":{"$ref":"#/$defs/a"}}}}`, "to the same value again and again"},
		{"itself at members", `{"properties":{"a":{"$ref":"#"}}}`, ""},
		{"a wrong expression", `{"pattern":"("}`, "is not a schema"},
		{"a look-behind, which RE2 has not", `{"pattern":"(?<=a)b"}`, "is not a schema"},
		{"a number without end", `{"maximum":1e999999999}`, "too long to be compared"},
	} {
		_, err := Compile([]byte(c.schema))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A schema at a bound is accepted, and one beyond it is refused.
func TestBoundsOfASchema(t *testing.T) {
	t.Parallel()
	deep := func(levels int) string { // the innermost true is a level
		return strings.Repeat(`{"not":`, levels-1) + "true" + strings.Repeat("}", levels-1)
	}
	many := func(n int, one string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(one, i)
		}
		return `{"allOf":[` + strings.Join(all, ",") + `]}`
	}
	program := func(n int) string { // n instructions; a literal has two besides its characters
		all := make([]string, 25)
		for i := range all {
			all[i] = fmt.Sprintf(`{"pattern":"%s"}`, strings.Repeat("a", n/25-2))
		}
		all[0] = fmt.Sprintf(`{"pattern":"%s"}`, strings.Repeat("a", n/25+n%25-2))
		return `{"allOf":[` + strings.Join(all, ",") + `]}`
	}
	for _, c := range []struct {
		name     string
		fits     string
		too, why string
	}{
		{"size", `{"description":"` + strings.Repeat("a", job.MaxResultSchema-18) + `"}`, `{"description":"` + strings.Repeat("a", job.MaxResultSchema-17) + `"}`, "has 65537 bytes"},
		{"depth", deep(maxDepth), deep(maxDepth + 1), "more than 64 levels"},
		{"parts", many(maxParts-1, `{"const":%d}`), many(maxParts, `{"const":%d}`), "more than 2000 objects"},
		{"booleans", `{"enum":` + repeat(maxBooleans, "true") + `}`, `{"enum":` + repeat(maxBooleans+1, "true") + `}`, "more than 5000 booleans"},
		{"instructions", program(maxProgram), program(maxProgram + 1), "more than 20000 instructions"},
		{"expressions", many(maxPatterns, `{"pattern":"a%d"}`), many(maxPatterns+1, `{"pattern":"a%d"}`), "more than 100 regular expressions"},
		{"an expression", `{"pattern":"` + strings.Repeat("a", maxPattern) + `"}`, `{"pattern":"` + strings.Repeat("a", maxPattern+1) + `"}`, "regular expression of 1025 bytes"},
		{"a number", `{"const":1e400}`, `{"const":1e401}`, "too long to be compared"},
	} {
		if _, err := Compile([]byte(c.fits)); err != nil {
			t.Errorf("%s at the bound: %v", c.name, err)
		}
		if _, err := Compile([]byte(c.too)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s over the bound: %v, want %q", c.name, err, c.why)
		}
	}
}

func mustCompile(t *testing.T, schema string) *Schema {
	t.Helper()
	s, err := Compile([]byte(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func check(t *testing.T, s *Schema, result string) ([]Mismatch, int) {
	t.Helper()
	all, more, err := s.Check(t.Context(), []byte(result))
	if err != nil {
		t.Fatal(err)
	}
	return all, more
}

func TestResults(t *testing.T) {
	t.Parallel()
	const score = `{"type":"object","required":["score"],"properties":{"score":{"type":"number","minimum":0},"a/b":{"type":"string"}},"additionalProperties":false}`
	for _, c := range []struct{ name, schema, result, want string }{
		{"it matches", score, `{"score":1}`, ""},
		{"no result is null", score, ``, "[got null, want object]"},
		{"no result where null may be", `{"type":"null"}`, ``, ""},
		{"in two places, by path", score, `{"score":-1,"a/b":7}`, "[/a~1b: got number, want string /score: minimum: got -1, want 0]"},
		{"missing", score, `{}`, "[missing property 'score']"},
		{"one of several", `{"anyOf":[{"type":"string"},{"type":"number"}]}`, `true`, "[got boolean, want number got boolean, want string]"},
		{"false", `false`, `1`, "[false schema]"},
		{"a number without end", `{"type":"integer"}`, `1e999999999`, `[has a number at "" that is too long to be compared: use at most 400 digits, and an exponent up to 400]`},
	} {
		got, more := check(t, mustCompile(t, c.schema), c.result)
		text := ""
		if len(got) > 0 {
			text = fmt.Sprint(got)
		}
		if text != c.want || more != 0 {
			t.Errorf("%s: %s and %d more, want %s", c.name, text, more, c.want)
		}
	}
}

// The report of a result is short even if the result has many mismatches or long texts.
func TestMismatchesAreBounded(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"items":{"type":"string"}}`)
	got, more := check(t, s, "["+strings.Repeat("1,", MaxMismatches)+"1]")
	if len(got) != MaxMismatches || more != 1 {
		t.Errorf("%d mismatches and %d more", len(got), more)
	}
	got, _ = check(t, mustCompile(t, `{"pattern":"^a$"}`), `"`+strings.Repeat("ö", 1000)+`"`)
	if len(got) != 1 || len(got[0].Reason) > maxReason+3 || !strings.HasSuffix(got[0].Reason, "...") {
		t.Errorf("%v", got)
	}
}

// Check gives up when the work grows without end: for a schema of a few lines that branches at each level of
// the result, in every draft, and for one that branches at any result. The schema remains usable.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	fan := `{"$ref":"#/$defs/d0","$defs":{`
	for i := range 60 {
		fan += fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fan += `"d60":{"type":"number"}}}`
	for _, c := range []struct{ name, schema, result, fine string }{
		{"2020-12", `{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, nested, `{"a":1}`},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, nested, `{"a":1}`},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, nested, `{"a":1}`},
		{"references", fan, `1`, ""},
		{"expressions", `{"items":{"pattern":"(a?){500}c"}}`, "[" + strings.Repeat(`"`+strings.Repeat("a", 1<<10)+`",`, 1<<12) + `""]`, `["c"]`},
	} {
		s := mustCompile(t, c.schema)
		got, _ := check(t, s, c.result)
		if len(got) != 1 || got[0].Reason != errTooMuch.Error() {
			t.Errorf("%s: %v", c.name, got)
		}
		if c.fine == "" {
			continue
		}
		if got, _ := check(t, s, c.fine); got != nil {
			t.Errorf("%s: what is fine is %v", c.name, got)
		}
	}
}

// The check of an ordinary result of the largest size needs at most a third of the allowed work.
func TestOrdinaryResultsAreChecked(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"type":"array","items":{"type":"object","required":["id","name"],"properties":{
		"id":{"type":"integer","minimum":0},"name":{"type":"string","maxLength":100,"pattern":"^[a-z ]+$"},"kind":{"enum":["a","b","c"]}}}}`)
	one := `{"id":17,"name":"the name of it","kind":"b"},`
	result := "[" + strings.Repeat(one, job.MaxResult/len(one)) + `{"id":1,"name":"x"}]`
	if got, _ := check(t, s, result); got != nil {
		t.Errorf("%v", got)
	}
	if spent := maxWork - s.meter.left; spent > maxWork/3 {
		t.Errorf("it takes %d of %d", spent, maxWork)
	}
}

// Schemas as common generators make them accept large results: with optional members, tagged unions, recursion
// and long expressions.
func TestGeneratedSchemas(t *testing.T) {
	t.Parallel()
	const hex = "[0-9a-fA-F]"
	for _, c := range []struct{ name, schema, item string }{
		{"optional members and a tagged union", `{"type":"array","items":{"$ref":"#/$defs/Event"},"$defs":{
			"Event":{"type":"object","title":"Event","required":["id","shape"],"additionalProperties":false,"properties":{
				"id":{"type":"integer"},"note":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null},
				"shape":{"oneOf":[{"$ref":"#/$defs/Circle"},{"$ref":"#/$defs/Square"}],"discriminator":{"propertyName":"kind"}}}},
			"Circle":{"type":"object","required":["kind"],"properties":{"kind":{"const":"circle"},"r":{"type":"number","exclusiveMinimum":0}}},
			"Square":{"type":"object","required":["kind"],"properties":{"kind":{"const":"square"},"a":{"type":"number","exclusiveMinimum":0}}}}}`,
			`{"id":1234,"note":null,"shape":{"kind":"square","a":0.25}}`},
		{"expressions of identifiers and times", `{"type":"array","items":{"type":"object","required":["id","at"],"additionalProperties":false,"properties":{
			"id":{"type":"string","format":"uuid","pattern":"^(` + hex + `{8}-` + hex + `{4}-[1-8]` + hex + `{3}-[89abAB]` + hex + `{3}-` + hex + `{12}|0{8}-0{4}-0{4}-0{4}-0{12})$"},
			"at":{"type":"string","format":"date-time","pattern":"^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d+)?)?Z$"}}}}`,
			`{"id":"6f1c2a34-9b7d-4e21-8c55-0a1b2c3d4e5f","at":"2026-03-04T05:06:07.089Z"}`},
		{"recursion", `{"type":"array","items":{"$ref":"#/$defs/node"},"$defs":{"node":{"type":"object","required":["value","next"],"additionalProperties":false,
			"properties":{"value":{"type":"number"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}}}}}`,
			`{"value":1,"next":{"value":-2.5,"next":{"value":3e2,"next":null}}}`},
	} {
		s := mustCompile(t, c.schema)
		got, _ := check(t, s, repeat(job.MaxResult/(len(c.item)+1), c.item))
		if got != nil {
			t.Errorf("%s: %v", c.name, got)
		}
		t.Logf("%s: %d of %d", c.name, maxWork-s.meter.left, maxWork)
	}
}

// The cache counts the instructions of expressions, because a short schema can have thousands.
func TestCacheCountsInstructions(t *testing.T) {
	t.Parallel()
	text := []byte(`{"pattern":"` + strings.Repeat("a{1000}", 19) + `"}`)
	c := newCache(maxCached)
	s, err := c.get(text, compile)
	if err != nil {
		t.Fatal(err)
	}
	if s.instructions < 19_000 || c.bytes != len(text)+perInstruction*s.instructions {
		t.Errorf("%d instructions, %d bytes", s.instructions, c.bytes)
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	made := 0
	c := newCache(10)
	get := func(data string) {
		if _, err := c.get([]byte(data), func([]byte) (*Schema, error) { made++; return &Schema{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, data := range []string{"aaaa", "bbbb", "aaaa", "cccc", "aaaa", "bbbb"} { // cccc evicts bbbb
		get(data)
	}
	if made != 4 || c.bytes > c.most || c.order.Len() != len(c.byHash) {
		t.Errorf("%d were made, %d bytes in %d of %d are kept", made, c.bytes, c.order.Len(), len(c.byHash))
	}
}
