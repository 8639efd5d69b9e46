package tenancy

import (
	"fmt"
	"strings"
)

// MaxGlob is the largest number of characters in a queue glob, as in a queue name.
const MaxGlob = 128

// Glob is a pattern of queue names: '*' matches any run of characters, also an empty one, and every other
// character matches itself. There is no escape, because a queue name cannot contain '*'.
type Glob string

// ParseGlob refuses a pattern that does not have 1 to MaxGlob characters, or has a character other than '*'
// and those of a queue name: ASCII letters, digits and . _ : -.
func ParseGlob(text string) (Glob, error) {
	if text == "" || len(text) > MaxGlob {
		return "", fmt.Errorf("queue pattern has %d characters: it takes 1 to %d", len(text), MaxGlob)
	}
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.ContainsRune("._:-*", c):
		default:
			return "", fmt.Errorf("queue pattern %q holds %q: it takes letters, digits, . _ : - and *", text, c)
		}
	}
	return Glob(text), nil
}

// Match reports whether the pattern matches the whole name. Its time is proportional to the lengths: it
// matches each part between two stars at the leftmost place, because that leaves the most room for the
// next part, and so it never has to backtrack.
func (g Glob) Match(name string) bool {
	prefix, rest, starred := strings.Cut(string(g), "*")
	if !starred {
		return name == string(g)
	}
	name, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	for {
		part, more, found := strings.Cut(rest, "*")
		if !found {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], more
	}
}
