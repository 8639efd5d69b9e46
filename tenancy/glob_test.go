package tenancy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGlob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob       string
		match, not []string
	}{
		{"mail", []string{"mail"}, []string{"", "mai", "mail2", "xmail", "MAIL"}},
		{"*", []string{"", "a", "a.b:c"}, nil},
		{"**", []string{"", "a"}, nil},
		{"mail.*", []string{"mail.", "mail.out", "mail.a.b"}, []string{"mail", "xmail.out"}},
		{"*.mail", []string{".mail", "out.mail", "a.mail.mail"}, []string{"mail", "out.mail2"}},
		{"a*b*c", []string{"abc", "axbxc", "abbcc", "abcbc"}, []string{"ab", "acb", "abcd", "xabc"}},
		{"*a*", []string{"a", "xax"}, []string{"", "x"}},
		{"a*a", []string{"aa", "aba"}, []string{"a", "ab"}},
		{"*ab*ab", []string{"abab", "xabab", "ababab"}, []string{"ab", "aba"}},
		{"a.b", []string{"a.b"}, []string{"axb"}}, // not a regular expression
	} {
		g, err := ParseGlob(c.glob)
		if err != nil {
			t.Errorf("ParseGlob(%q): %v", c.glob, err)
		}
		for _, name := range c.match {
			if !g.Match(name) {
				t.Errorf("%q does not match %q", c.glob, name)
			}
		}
		for _, name := range c.not {
			if g.Match(name) {
				t.Errorf("%q matches %q", c.glob, name)
			}
		}
	}
}

func TestParseGlob(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("a", MaxGlob)
	for _, text := range []string{"a", "*", "A-z_0.9:*", longest} {
		if g, err := ParseGlob(text); err != nil || string(g) != text {
			t.Errorf("ParseGlob(%q) = %q, %v", text, g, err)
		}
	}
	for _, text := range []string{"", longest + "a", "a b", "a?", "[ab]", "a/b", `a\*`, "ä", "a\x00", "a\xff"} {
		if g, err := ParseGlob(text); err == nil {
			t.Errorf("ParseGlob(%q) = %q, want an error", text, g)
		}
	}
}

// matchSlowly defines Match: a star tries every number of characters.
func matchSlowly(glob, name string) bool {
	if glob == "" {
		return name == ""
	}
	if glob[0] != '*' {
		return name != "" && name[0] == glob[0] && matchSlowly(glob[1:], name[1:])
	}
	for i := range len(name) + 1 {
		if matchSlowly(glob[1:], name[i:]) {
			return true
		}
	}
	return false
}

func TestGlobAgreesWithItsDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.StringMatching(`[ab*]{1,10}`).Draw(t, "glob")
		name := rapid.StringMatching(`[ab]{0,12}`).Draw(t, "name")
		if got, want := Glob(glob).Match(name), matchSlowly(glob, name); got != want {
			t.Fatalf("%q on %q is %v, want %v", glob, name, got, want)
		}
	})
}

// TestGlobDoesNotBacktrack uses a pattern for which a matcher that backtracks has 10^40 ways to try. Such
// a matcher would run into the time limit of the test.
func TestGlobDoesNotBacktrack(t *testing.T) {
	t.Parallel()
	glob := Glob(strings.Repeat("*a", MaxGlob/2-1) + "*b")
	if glob.Match(strings.Repeat("a", 1<<20)) {
		t.Error("a name without b matches a pattern that ends in b")
	}
}
