package jq

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
	_ "modernc.org/sqlite"
	"pgregory.net/rapid"
)

// TestMeansWhatJqMeans evaluates expressions about documents with SQLite and with gojq. Both must agree on
// each document, errors of jq included.
func TestMeansWhatJqMeans(t *testing.T) {
	t.Parallel()
	table := newPayloads(t)
	matched, failed, cases := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		docs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return document(t, 0) }), 8, 8).Draw(t, "documents")
		table.fill(t, docs)
		for range 8 {
			e := rapid.Custom(func(t *rapid.T) pair { return condition(t, 0) }).Draw(t, "expression")
			got := table.find(t, e.ours)
			code := compiled(t, e.jqs)
			for i, doc := range docs {
				want, errs := asJq(code, doc)
				if slices.Contains(got, i) != want {
					t.Fatalf("%s\nof %s: %v\njq (%s) says %v, errs: %v", e.ours, doc, !want, e.jqs, want, errs)
				}
				cases++
				if errs {
					failed++
				} else if want {
					matched++
				}
			}
		}
	})
	t.Logf("%d cases, %d match, %d are errors in jq", cases, matched, failed)
	if matched < cases/50 || failed < cases/50 || matched+failed > cases*49/50 {
		t.Fatal("the expressions do not tell documents apart")
	}
}

// asJq reports whether a document would pass select(...), and whether jq would end with an error.
func asJq(code *gojq.Code, doc string) (matches, errs bool) {
	v, ok := code.Run(decoded(doc)).Next()
	if _, errs = v.(error); errs || !ok {
		return false, true
	}
	return v != nil && v != false, false
}

// decoded decodes a document for gojq, with integers as integers.
func decoded(doc string) any {
	d := json.NewDecoder(bytes.NewReader([]byte(doc)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(fmt.Sprintf("%s: %v", doc, err))
	}
	return native(v)
}

func native(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, err := v.Float64()
		if err != nil {
			panic(err)
		}
		return f
	case []any:
		for i := range v {
			v[i] = native(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = native(v[name])
		}
	}
	return v
}

// defined removes two differences from gojq: gojq finds characters of a string by number, which jq does not,
// and our contains finds a member of an array, which jq's does not.
const defined = `def member(n): if type == "string" then error("no member") else .[n] end;
	def finds(s): if type == "array" then any(.[]; . == s) else contains(s) end; `

type reporter interface {
	Fatal(...any)
	Fatalf(string, ...any)
	Helper()
}

func compiled(t reporter, text string) *gojq.Code {
	t.Helper()
	q, err := gojq.Parse(defined + text)
	if err != nil {
		t.Fatalf("jq does not know %s: %v", text, err)
	}
	code, err := gojq.Compile(q)
	if err != nil {
		t.Fatalf("jq does not know %s: %v", text, err)
	}
	return code
}

// payloads is a table in a real file.
type payloads struct{ db *sql.DB }

func newPayloads(t *testing.T) payloads {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "payloads"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("PRAGMA synchronous=OFF; CREATE TABLE document (number INTEGER PRIMARY KEY, payload TEXT) STRICT"); err != nil {
		t.Fatal(err)
	}
	return payloads{db}
}

func (p payloads) fill(t reporter, docs []string) {
	t.Helper()
	if _, err := p.db.Exec("DELETE FROM document"); err != nil {
		t.Fatal(err)
	}
	for i, doc := range docs {
		if _, err := p.db.Exec("INSERT INTO document VALUES (?, ?)", i, doc); err != nil {
			t.Fatal(err)
		}
	}
}

// printsTheSame checks that Parse reads the printed expression as the same expression. Because Parse resolves
// pipes, the printed expression may exceed a bound.
func printsTheSame(t reporter, e *Expr) {
	t.Helper()
	again, err := Parse(e.String())
	if err != nil && strings.Contains(err.Error(), "at most") {
		return
	}
	if err != nil || !reflect.DeepEqual(again, e) {
		t.Fatalf("%#v\nprints %s,\nwhich is %#v (%v)", e, e, again, err)
	}
}

// find returns the numbers of the documents for which an expression is true.
func (p payloads) find(t reporter, text string) (numbers []int) {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	printsTheSame(t, e)
	where, args := e.Where("d.payload")
	rows, err := p.db.Query("SELECT d.number FROM document d WHERE "+where, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, where)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, where)
	}
	return numbers
}

var (
	// names are few, so that expressions often name fields that documents have.
	names = []string{"a", "b", "a", "b", "items", "and", "a b", "", `q"`, `\`, "é", ".", "$", "[0]", "'", "?", "a\nb"}
	// amounts contain no two floats next to each other, because jq compares an integer with a float as two
	// floats, and SQLite compares them exactly.
	amounts = []string{"0", "1", "-1", "2", "3", "1.0", "1.5", "-0.0", "1e2", "100", "0.1", "9007199254740993", "9007199254740992",
		"9223372036854775807", "-9223372036854775808", "1e300"}
	strs = []string{"", "a", "b", "ab", "vip", "wvip", "viper", "é", "日本", "😀", `"`, `\`, "%", "_", "a\nb", "1", "null"}
)

func drawn(t *rapid.T, from []string) string { return rapid.SampledFrom(from).Draw(t, "of") }

func chance(t *rapid.T, percent int) bool { return rapid.IntRange(0, 99).Draw(t, "chance") < percent }

// document draws a random JSON text, mostly an object.
func document(t *rapid.T, depth int) string {
	kind := rapid.IntRange(0, 9).Draw(t, "kind")
	if depth == 0 && chance(t, 80) {
		kind = 9
	}
	if depth > 3 {
		kind = min(kind, 5)
	}
	switch kind {
	case 0:
		return "null"
	case 1:
		return "true"
	case 2:
		return "false"
	case 3, 4:
		return drawn(t, amounts)
	case 5:
		return quote(drawn(t, strs))
	case 6, 7:
		var members []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			members = append(members, document(t, depth+1))
		}
		return "[" + strings.Join(members, ", ") + "]"
	}
	var fields []string
	for _, name := range names[2:] {
		percent := 10
		if len(name) == 1 && isName(name) {
			percent = 60
		}
		if chance(t, percent) {
			fields = append(fields, quote(name)+": "+document(t, depth+1))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// pair is an expression in our language and the equivalent in gojq's.
type pair struct{ ours, jqs string }

func same(text string) pair { return pair{text, text} }

func (p pair) with(format string, others ...pair) pair {
	ours, jqs := []any{p.ours}, []any{p.jqs}
	for _, o := range others {
		ours, jqs = append(ours, o.ours), append(jqs, o.jqs)
	}
	return pair{fmt.Sprintf(format, ours...), fmt.Sprintf(format, jqs...)}
}

func drawPlace(t *rapid.T) pair {
	text, jqs := "", "(."
	for range rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2, 3}).Draw(t, "steps") {
		name := drawn(t, names)
		if chance(t, 15) {
			index := rapid.IntRange(-3, 3).Draw(t, "index")
			text += fmt.Sprintf("[%d]", index)
			jqs += fmt.Sprintf(" | member(%d)", index)
			continue
		}
		jqs += " | .[" + quote(name) + "]"
		switch {
		case isName(name) && chance(t, 80):
			text += "." + name
		case chance(t, 50):
			text += "[ " + quote(name) + " ]"
		default:
			text += "." + quote(name)
		}
	}
	if !strings.HasPrefix(text, ".") {
		text = "." + text
	}
	return pair{text, jqs + ")"}
}

func drawLiteral(t *rapid.T) pair {
	return same(rapid.OneOf(rapid.SampledFrom(amounts), rapid.SampledFrom([]string{"null", "true", "false"}),
		rapid.Map(rapid.SampledFrom(strs), quote)).Draw(t, "literal"))
}

// function draws a function of ".".
func function(t *rapid.T) pair {
	arg := same(quote(drawn(t, strs)))
	switch rapid.IntRange(0, 5).Draw(t, "function") {
	case 0:
		return same("length")
	case 1:
		return pair{"contains(" + arg.ours + ")", "finds(" + arg.jqs + ")"}
	case 2:
		return arg.with("startswith(%s)")
	case 3:
		return arg.with("endswith( %s )")
	case 4:
		return same("has(" + quote(drawn(t, names)) + ")")
	}
	return same(fmt.Sprintf("has(%d)", rapid.IntRange(-2, 3).Draw(t, "index")))
}

// fixed draws an operand whose class is known.
func fixed(t *rapid.T, depth int) pair {
	switch kind := rapid.IntRange(0, 9).Draw(t, "operand"); {
	case kind < 6:
		return drawLiteral(t)
	case kind < 8 || depth > 2:
		return drawPlace(t).with("(%s | %s)", function(t))
	}
	return condition(t, depth+1).with("(%s | not)")
}

// lead draws an expression that evaluates "." first.
func lead(t *rapid.T, depth int) pair {
	op := same(drawn(t, operators))
	switch rapid.IntRange(0, 6).Draw(t, "lead") {
	case 0:
		return drawPlace(t)
	case 1, 2:
		return drawPlace(t).with("%s %s %s", op, fixed(t, depth+1))
	case 3:
		return fixed(t, depth+1).with("%s %s %s", op, drawPlace(t))
	case 4:
		return function(t).with("%s %s %s", op, fixed(t, depth+1))
	case 5:
		return same("not")
	}
	return function(t)
}

func condition(t *rapid.T, depth int) pair {
	kind := rapid.IntRange(0, 9).Draw(t, "condition")
	if depth > 3 {
		kind = min(kind, 5)
	}
	switch kind {
	case 0, 1, 2:
		return lead(t, depth)
	case 3, 4:
		return drawPlace(t).with("%s|%s", lead(t, depth)).with("(%s)")
	case 5:
		return fixed(t, depth).with("%s %s %s", same(drawn(t, operators)), fixed(t, depth))
	case 6:
		return condition(t, depth+1).with("(%s) | not").with("(%s)")
	case 7:
		return lead(t, depth).with("%s and %s or %s", condition(t, depth+1), lead(t, depth))
	case 8:
		return drawPlace(t).with("(%s | (%s and %s))", lead(t, depth), condition(t, depth+1))
	}
	return condition(t, depth+1).with("(%s or %s)", condition(t, depth+1))
}
