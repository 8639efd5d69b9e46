package convert

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzValidJSON(f *testing.F) {
	for _, text := range []string{
		``, ` `, `{}`, `[]`, ` { "a" : [ 1 , -0.5e+7 , true , false , null , "\u00fF\n\"" ] , "" : { } } `, `{"a":1,}`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{a:1}`,
		`01`, `-`, `-0`, `0.`, `.5`, `1e`, `1e+`, `1E-2`, `+1`, `tru`, `truex`, `nul`, `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\x00\"", "\"\x7f\"",
		`"ü"`, "\"\xff\"", "\xff", "\u00a01", `{} {}`, `1 2`, `[`, `{`, `[1`, `{"a":1`, `]`, "\ufeff{}", `{"a":1 "b":2}`, `[1 2]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := validJSON(text), json.Valid([]byte(text)) && utf8.ValidString(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	})
}

// validJSON bounds nesting at the same depth as encoding/json.
func TestValidJSONNesting(t *testing.T) {
	t.Parallel()
	for _, open := range []string{"[", `{"a":`} {
		for depth, valid := range map[int]bool{maxNesting: true, maxNesting + 1: false} {
			text := strings.Repeat(open, depth) + "1" + strings.Repeat(map[string]string{"[": "]", `{"a":`: "}"}[open], depth)
			if got := validJSON(text); got != valid || got != json.Valid([]byte(text)) {
				t.Errorf("%d times %s: %v", depth, open, got)
			}
		}
	}
}

func BenchmarkValidJSON(b *testing.B) {
	text := `{"to":"somebody@example.com","subject":"something that is about two hundred bytes long, as jobs are","body":"................................................................................"}`
	b.Run("this", func(b *testing.B) {
		for b.Loop() {
			validJSON(text)
		}
	})
	b.Run("library", func(b *testing.B) {
		raw := []byte(text)
		for b.Loop() {
			_ = utf8.Valid(raw) && json.Valid(raw)
		}
	})
}
