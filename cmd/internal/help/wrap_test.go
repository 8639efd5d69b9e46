package help

import (
	"strings"
	"testing"
)

// TestFold checks that fold breaks a text between words, at the width and not before it.
func TestFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text          string
		indent, width int
		want          string
	}{
		{"", 0, 10, ""},
		{"four five six", 0, 9, "four five\nsix"},
		{"four five six", 0, 8, "four\nfive six"},
		{"four five six", 2, 11, "four five\n  six"},
		{"a wordthatislong b", 0, 5, "a\nwordthatislong\nb"},
		{"größe über", 0, 10, "größe über"},
	} {
		if got := fold(c.text, c.indent, c.width); got != c.want {
			t.Errorf("%q at %d from %d: %q, want %q", c.text, c.width, c.indent, got, c.want)
		}
	}
}

// TestParagraphs checks that each paragraph is broken by itself and that code is kept.
func TestParagraphs(t *testing.T) {
	t.Parallel()
	code := "\tsource <(tool completion bash) and a line that is long"
	got := paragraphs("one two\nthree four\n\nfive:\n"+code+"\nsix seven eight", 14)
	if want := "one two three\nfour\n\nfive:\n" + code + "\nsix seven\neight"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := paragraphs(strings.Repeat("word ", 40), MaxWidth); strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
}
