package tenancy

import (
	"fmt"
	"strings"
)

// MaxGlob is the most characters of a queue glob, that of a queue's name.
const MaxGlob = 128

// Glob is a pattern of queue names: '*' stands for any run of characters,
// empty included, everything else for itself. There is no escape and no other
// wildcard, for queue names hold none of those characters.
type Glob string

// ParseGlob checks a pattern: 1 to MaxGlob characters out of those of a queue's
// name (letters, digits and . _ : -) and '*'.
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

// Match says whether the pattern covers all of name. It takes time in
// proportion to their lengths: the leftmost place of each part between two
// stars leaves the most room for the next, so there is nothing to go back to.
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
