package jq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestFinds lists the documents that each form finds.
func TestFinds(t *testing.T) {
	t.Parallel()
	docs := []string{
		0: `{"a": {"b": "x"}, "n": 5, "tags": ["vip", "new"], "t": "welcome", "items": [1, 2, 3, 4, 5, 6]}`,
		1: `{"a": {"b": "y"}, "n": 7.0, "tags": "some vip", "t": "bye", "items": {"k": 1}}`,
		2: `{"a": null, "n": true, "tags": ["vipers"], "a b": {"c d": 1}, "t": "", "items": "123456"}`,
		3: `{"a": "b", "n": 9007199254740993, "tags": null}`,
		4: `[1, "vip"]`,
		5: `"w"`,
		6: `null`,
		7: `{"n": "5", "m": [[10, 20], {"z": false}]}`,
		8: `{"n": 1`,
		9: `{"n": 7, "n": 8}`, // a repeated name: the first counts
	}
	table := newPayloads(t)
	table.fill(t, docs)
	if _, err := table.db.Exec("INSERT INTO document VALUES (10, NULL), (11, ''), (12, ?)", strings.Repeat("[", 5000)+strings.Repeat("]", 5000)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want []int
	}{
		{`.a.b == "x"`, []int{0}},
		{`.a.b != "x"`, []int{1, 2, 6, 7, 9}}, // a missing field is null; a field of a string is an error
		{`(.a.b == "x") | not`, []int{1, 2, 6, 7, 9}},
		{`.n > 5`, []int{1, 3, 7, 9}}, // strings are greater than numbers
		{`.n == 7`, []int{1, 9}},
		{`.n == 8`, nil},
		{`.n == 1`, nil}, // true is not 1
		{`.n == true`, []int{2}},
		{`.n == 9007199254740993`, []int{3}},
		{`.n == 9007199254740992`, nil},
		{`5 <= .n and .n < "4"`, []int{0, 1, 3, 9}},
		{`.tags | contains("vip")`, []int{0, 1}}, // a member must match as a whole, so "vipers" does not
		{`.t | startswith("w")`, []int{0}},
		{`.t|endswith("ye")`, []int{1}},
		{`.t | endswith("")`, []int{0, 1, 2}},
		{`.items | length > 5`, []int{0, 2}},
		{`.items | length == 0`, []int{3, 6, 7, 9}},
		{`."a b"["c d"] == 1`, []int{2}},
		{`.["a b"]."c d" == 1`, []int{2}},
		{`.m[0][-1] == 20`, []int{7}},
		{`.m[1].z | not`, []int{0, 1, 2, 3, 6, 7, 9}},
		{`.[1] == "vip"`, []int{4}},
		{`. == "w"`, []int{5}},
		{`. == null`, []int{6}},
		{`has("t") and (.t | has("u") | not)`, nil},
		{`has("t")`, []int{0, 1, 2}},
		{`has(1)`, []int{4}},
		{`.n`, []int{0, 1, 2, 3, 7, 9}},
		{`true`, []int{0, 1, 2, 3, 4, 5, 6, 7, 9}},
		// An error is no match, unless jq does not evaluate it.
		{`.a.b == "x" or true`, []int{0, 1, 2, 6, 7, 9}},
		{`true or .a.b == "x"`, []int{0, 1, 2, 3, 4, 5, 6, 7, 9}},
		{`.n == 7 and (.t | startswith("b")) or .a.b == "x"`, []int{0, 1}},
	} {
		if got := table.find(t, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s finds %v, want %v", c.text, got, c.want)
		}
	}
}

// TestNothingIsSQL uses names and strings that would end a string, a path or a statement if they became part
// of one.
func TestNothingIsSQL(t *testing.T) {
	t.Parallel()
	table := newPayloads(t)
	for _, hostile := range []string{`'`, `"`, `\`, `\"`, `') OR 1=1 --`, `$`, `$.a`, `#-1`, `]`, `"]."`, "?", "?1", ":a", "@a", ";", "%", "\x00", "\u2028", "<&>"} {
		table.fill(t, []string{fmt.Sprintf(`{%s: 1, "a": %[1]s}`, quote(hostile)), `{"a": 2}`})
		for _, text := range []string{
			fmt.Sprintf(`.[%s] == 1`, quote(hostile)), fmt.Sprintf(`.%s == 1`, quote(hostile)), fmt.Sprintf(`has(%s)`, quote(hostile)),
			fmt.Sprintf(`.a == %s`, quote(hostile)), fmt.Sprintf(`.a != 2 and (.a | endswith(%s))`, quote(hostile)),
			fmt.Sprintf(`.a == %s and (.a | startswith(%[1]s)) and (.a | contains(%[1]s))`, quote(hostile)),
		} {
			if got := table.find(t, text); !slices.Equal(got, []int{0}) {
				t.Errorf("%s finds %v, want the first", text, got)
			}
			e, _ := Parse(text)
			if where, args := e.Where("payload"); strings.Contains(where, "'"+hostile+"'") || strings.Count(where, "?") != len(args) {
				t.Errorf("%s is not in the parameters of %s", hostile, where)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text     string
		position int
		message  string
	}{
		{"", 0, "expected a place"},
		{"   ", 3, "expected a place"},
		{".a ==", 5, "expected a place"},
		{".a = 1", 3, "expected an operator"},
		{".a.", 3, "name of a field"},
		{".a[", 3, "expected a constant"},
		{".a[1.5]", 3, "whole number"},
		{".a[true]", 3, "name in quotes"},
		{".a[]", 3, "expected a constant"},
		{".a[1", 4, "expected ]"},
		{"(.a", 3, "expected )"},
		{".a == .b", 3, "one side"},
		{".a == 1 == 2", 8, "chained"},
		{".a | 1 == 1", 5, "must begin with what it is given"},
		{".a == 1 | length", 10, "expected not"},
		{"not .a", 0, "not comes after"},
		{"not (.a == 1)", 0, "not comes after"},
		{".a | test(\"x\")", 5, `"test" is unknown`},
		{".a | contains(5)", 5, "takes a string"},
		{".a | contains", 13, "expected ("},
		{".a | has(1.5)", 9, "whole number"},
		{`.a == "x`, 6, "does not end"},
		{`.a == "\(.b)"`, 7, `\( is not understood`},
		{`.a == "\x"`, 6, "not a string of JSON"},
		{".a == 1e999", 6, "is beyond"},
		{".a == 1x", 7, "end of the number"},
		{".a == -", 6, "expected a number"},
		{".a == 1e", 8, "exponent"},
		{".a == \"\xff\"", 7, "not UTF-8"},
		{".a, .b", 2, "expected an operator"},
		{".a or", 5, "expected a place"},
	} {
		_, err := Parse(c.text)
		var fault *Error
		if !errors.As(err, &fault) || fault.Position != c.position || !strings.Contains(fault.Message, c.message) {
			t.Errorf("%q: %v, want at %d: %s", c.text, err, c.position, c.message)
		}
	}
}

// TestBounds parses an expression at each bound, which SQLite accepts, and one beyond the bound.
func TestBounds(t *testing.T) {
	t.Parallel()
	table := newPayloads(t)
	table.fill(t, []string{`{"a": 1}`})
	steps := func(n int) string { return strings.Repeat(".a", n) }
	for _, c := range []struct {
		name        string
		at, beyond  string
		position    int
		matchesAtIt bool
	}{
		{"text", `.a != "` + strings.Repeat("x", MaxText-8) + `"`, `.a != "` + strings.Repeat("x", MaxText-7) + `"`, MaxText, true},
		{"parentheses", strings.Repeat("(", MaxDepth-1) + ".a" + strings.Repeat(")", MaxDepth-1), strings.Repeat("(", MaxDepth) + ".a" + strings.Repeat(")", MaxDepth), MaxDepth, true},
		{"pipes", ".a" + strings.Repeat("|.", MaxDepth-1), ".a" + strings.Repeat("|.", MaxDepth), 2*MaxDepth + 1, true},
		{"steps", steps(MaxDepth) + " == null", steps(MaxDepth+1) + " == null", 2 * MaxDepth, false},
		{"nodes", "." + strings.Repeat(" and .", MaxNodes/2-1) + "|not", "." + strings.Repeat(" and .", MaxNodes/2), 3 * MaxNodes, false},
		{"alternatives", ".a" + strings.Repeat("==9 or .a", (MaxNodes-2)/5), ".a" + strings.Repeat("==9 or .a", MaxNodes/5), -1, true},
		{"denials", "." + strings.Repeat("|not", MaxNodes-1), "." + strings.Repeat("|not", MaxNodes), -1, false},
		{"nested", nested(MaxDepth - 1), nested(MaxDepth), -1, true},
		{"index", fmt.Sprintf("(.b[%d] == null) and (.b[-%[1]d] == null)", MaxIndex), fmt.Sprintf(".b[%d]", MaxIndex+1), 3, true},
		{"member", fmt.Sprintf(".b | has(%d) | not", MaxIndex), fmt.Sprintf(".b | has(-%d)", MaxIndex+1), 9, true},
	} {
		if got := table.find(t, c.at); len(got) == 1 != c.matchesAtIt {
			t.Errorf("%s at the bound: found %v", c.name, got)
		}
		_, err := Parse(c.beyond)
		var fault *Error
		if !errors.As(err, &fault) || c.position >= 0 && fault.Position != c.position {
			t.Errorf("%s beyond the bound: %v, want it at %d", c.name, err, c.position)
		}
	}
}

// nested returns nested conditions, each compared with true.
func nested(depth int) string {
	return strings.Repeat("(", depth) + ".a == 1" + strings.Repeat(") == true", depth)
}

// FuzzParse checks that no text makes Parse panic. A parsed expression prints as text that parses to the same
// expression, and its SQL has a parameter for each question mark.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`.a.b == "x"`, `.tags | contains("vip")`, `.items | length > 5 and (.t | startswith("w") | not)`, `.["a b"]."c\"d"[-1] != -1.5e3`,
		`has("x") or has(0)`, `null < .a`, "not (.a", `"\ud800"`, ". ", `.a|.b|.c[0]|endswith("")`, "((((", "-.5 == .",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		var fault *Error
		if err != nil {
			if !errors.As(err, &fault) || fault.Position < 0 || fault.Position > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		printsTheSame(t, e)
		where, args := e.Where("payload")
		if strings.Count(where, "?") != len(args) {
			t.Fatalf("%q: %d parameters for %s", text, len(args), where)
		}
	})
}
