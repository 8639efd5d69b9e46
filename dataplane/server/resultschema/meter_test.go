package resultschema

import (
	"fmt"
	"strings"
	"testing"
)

// repeat returns a JSON list that contains one n times.
func repeat(n int, one string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]"
}

func nested(depth int, open, inner, end string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
}

func numbers(from, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(from + i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// splits returns a JSON list of 1<<bits lists of strings that differ only in where a text is split.
func splits(bits int) string {
	all := make([]string, 1<<bits)
	for n := range all {
		one := `["0`
		for b := range bits {
			if n>>b&1 == 1 {
				one += `","0`
			} else {
				one += `\u00040`
			}
		}
		all[n] = one + `"]`
	}
	return "[" + strings.Join(all, ",") + "]"
}

const megabyte = 1 << 20

// Each check ends soon, although the library alone would take many seconds to years for most of them, or
// gigabytes.
func TestNoWorkIsHidden(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", megabyte-100)
	object := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"%d":0`, i)
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for _, c := range []struct {
		name, schema, result string
		ends                 bool // the check takes less than maxWork
	}{
		{"other numbers than of a long enum", `{"items":{"enum":` + numbers(0, 11_000) + `}}`, repeat(340_000, "-1"), true},
		{"numbers of a long enum", `{"items":{"enum":` + numbers(0, 11_000) + `}}`, repeat(170_000, "10999"), true},
		{"large values of an enum", `{"items":{"enum":[` + repeat(10_000, "1") + `]}}`, repeat(20, repeat(10_000, "1")), true},
		{"branches in not", `{"not":{"$ref":"#/$defs/s"},"$defs":{"s":{"type":"array","prefixItems":[{"$ref":"#/$defs/s"}],"contains":{"$ref":"#/$defs/s"}}}}`, nested(60, "[", "", "]"), false},
		{"branches at failed types", `{"$defs":{"s":{"type":"object","additionalProperties":{"allOf":[{"$ref":"#/$defs/s"},{"$ref":"#/$defs/s"}]}}},"$ref":"#/$defs/s"}`, nested(60, `{"a":`, "1", "}"), false},
		{"an expression with many alternatives", `{"pattern":"(a?){500}b"}`, `"` + long + `"`, false},
		{"such an expression of names", `{"patternProperties":{"(a?){500}b":true}}`, `{"` + long + `":1}`, false},
		{"a format", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"regex"}`, `"[` + strings.Repeat(`\\P{L}`, megabyte/7) + `]"`, false},
		{"items with one hash", `{"uniqueItems":true}`, splits(13), true},
		{"large equal items", `{"allOf":` + repeat(1000, `{"uniqueItems":true}`) + `}`, repeat(20, repeat(20_000, "1")), false},
		{"many true", `{"unevaluatedProperties":true,"allOf":` + repeat(maxBooleans-1, "true") + `}`, object(50_000), false},
		{"long strings", `{"allOf":` + repeat(1900, `{"minLength":1}`) + `}`, `"` + long + `"`, false},
		{"long names", `{"allOf":` + repeat(900, `{"properties":{"a":true}}`) + `}`, `{"` + long + `":1}`, false},
		{"false items", `{"allOf":` + repeat(50, `{"items":false}`) + `}`, repeat(megabyte/2-10, "1"), false},
		{"numbers", `{"items":{"allOf":` + repeat(50, `{"multipleOf":3e-399}`) + `}}`, repeat(100_000, "1.5e-300"), false},
		{"deep mismatches", `{"type":["array","string"],"items":{"$ref":"#"}}`, nested(500, "[", strings.Trim(repeat(300_000, "1"), "[]"), "]"), false},
		{"many members under a long name", `{}`, `{"` + strings.Repeat("a", megabyte/2) + `":` + repeat(200_000, "1") + `}`, true},
		{"names of many members", `{"required":` + repeat(1, `"`+strings.Repeat("a", 60_000)+`"`) + `}`, "{}", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustCompile(t, c.schema)
			if len(c.result) > megabyte {
				t.Fatalf("%d bytes", len(c.result))
			}
			got, _ := check(t, s, c.result)
			if ends := len(got) != 1 || got[0].Reason != errTooMuch.Error(); ends != c.ends {
				t.Errorf("%v", got)
			}
			t.Logf("%d of %d", maxWork-s.meter.left, maxWork)
		})
	}
}
