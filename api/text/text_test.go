package text_test

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/api/text"
)

func TestLoneSurrogate(t *testing.T) {
	t.Parallel()
	for json, want := range map[string]bool{
		``:                   false,
		`"plain"`:            false,
		`"\n\t\"\\\/"`:       false,
		`"\u00e9\u4e2d"`:     false,
		`"\ud83d\ude00"`:     false,
		`"\uD83D\uDE00"`:     false,
		`"\\ud83d"`:          false,
		`"\\\ud83d"`:         true,
		`"\ud83d"`:           true,
		`"\ude00"`:           true,
		`"\ude00\ud83d"`:     true,
		`"\ud83d\ud83d"`:     true,
		`"\ud83d\n\ude00"`:   true,
		`"\ud83dx\ude00"`:    true,
		`"\ud83d\u0041"`:     true,
		`"\ud83d\ude00\ud8"`: false, // no JSON anyway
		`\`:                  false,
	} {
		if got := text.LoneSurrogate([]byte(json)) >= 0; got != want {
			t.Errorf("LoneSurrogate(%s) is %v", json, got)
		}
	}
}

func TestStringSize(t *testing.T) {
	t.Parallel()
	for json, want := range map[string]int{
		`""`: 2, `"a",`: 3, `"\""`: 4, `"\\"x"`: 4, `"\\\"" `: 6, `"a`: -1, `"\"`: -1, `"`: -1,
	} {
		size, whole := text.StringSize([]byte(json))
		if whole != (want >= 0) || whole && size != want || !whole && size != len(json) {
			t.Errorf("%s: %d, whole: %v", json, size, whole)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"abc": "abc", "abcd": "abc...", "aéé": "aé...", "ab😀": "ab..."} {
		if got := text.Cut(given, 3); got != want || string(text.Cut([]byte(given), 3)) != want {
			t.Errorf("%q is cut to %q, want %q", given, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                               `""`,
		"a\"b":                           `"a\"b"`,
		strings.Repeat("a", 64):          `"` + strings.Repeat("a", 64) + `"`,
		strings.Repeat("a", 65):          `"` + strings.Repeat("a", 64) + `"...`,
		strings.Repeat("a", 63) + "äöü":  `"` + strings.Repeat("a", 63) + `"...`,
		strings.Repeat("a", 62) + "äöü":  `"` + strings.Repeat("a", 62) + `ä"...`,
		strings.Repeat("\x80", 64) + "b": `"` + strings.Repeat(`\x80`, 64) + `"...`,
	} {
		if got := text.Quote(given); got != want {
			t.Errorf("%q is quoted as %s, want %s", given, got, want)
		}
	}
}
