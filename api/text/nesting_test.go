package text_test

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api/text"
)

func TestNesting(t *testing.T) {
	t.Parallel()
	for json, want := range map[string]int{
		``:                                0,
		`1`:                               0,
		`"[[{"`:                           0,
		`"\"[["`:                          0,
		`{}`:                              1,
		` [ ] `:                           1,
		`[[],[[1]],{"[":"{"}]`:            3,
		`{"a":[{"b\\":"}"}],"c\"{":[[]]}`: 3,
		`[`:                               1,
		`"[`:                              0,
		`]]]`:                             0,
	} {
		if got := text.Nesting([]byte(json)); got != want {
			t.Errorf("%s: %d, want %d", json, got, want)
		}
	}
}

func TestCheckNesting(t *testing.T) {
	t.Parallel()
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := text.CheckNesting(nested(7), 7); err != nil {
		t.Error(err)
	}
	if err := text.CheckNesting(nested(8), 7); err == nil || err.Error() != "nested 8 levels deep, at most 7 are taken" {
		t.Error(err)
	}
}

func BenchmarkNesting(b *testing.B) {
	json := []byte(`[` + strings.Repeat(`{"to":"somebody@example.com","n":[1,2,3],"escaped":"\"yes\""},`, 10_000) + `1]`)
	b.SetBytes(int64(len(json)))
	for b.Loop() {
		text.Nesting(json)
	}
}
