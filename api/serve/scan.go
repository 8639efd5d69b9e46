package serve

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/corvo/corvo/api/text"
)

// scanner goes over the parts of a JSON text in one pass and allocates nothing. It takes
// the text for valid: where that has a fault it may stop anywhere, or take the fault for
// something else.
type scanner struct {
	text []byte
	at   int
}

// peek is the next byte that is no white space; 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c > ' ' {
			return c
		}
	}
	return 0
}

// over goes over a byte, and says whether it is the next one.
func (s *scanner) over(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// members goes into the object that is next and yields the names in it, between their
// quotes. Whoever takes one goes over its value.
func (s *scanner) members() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		s.at++
		for more := true; more && s.peek() == '"'; more = s.over(',') {
			name := s.string()
			s.over(':')
			if !yield(name) {
				return
			}
		}
		s.over('}')
	}
}

// elements goes into the list that is next and yields the places in it. Whoever takes
// one goes over its element.
func (s *scanner) elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		s.at++
		for i, more := 0, s.peek() != ']'; more; i, more = i+1, s.over(',') {
			if !yield(i) {
				return
			}
		}
		s.over(']')
	}
}

// raw goes over a value and is its text.
func (s *scanner) raw() json.RawMessage {
	s.peek()
	begin := s.at
	s.skip()
	return bytes.TrimRight(s.text[begin:s.at], " \t\r\n")
}

// string goes over a string and is what lies between its quotes.
func (s *scanner) string() []byte {
	begin := s.at
	size, whole := text.StringSize(s.text[begin:])
	if s.at += size; !whole {
		return nil
	}
	return s.text[begin+1 : s.at-1]
}

// structural are the bytes that a value's bounds are found by.
var structural = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ',': true}

// skip goes over a value whatever it is, and says how many it has in it.
func (s *scanner) skip() (parts int) {
	for depth := 0; ; s.at++ {
		for s.at < len(s.text) && !structural[s.text[s.at]] {
			s.at++
		}
		if s.at == len(s.text) {
			return parts
		}
		switch s.text[s.at] {
		case '"':
			s.string()
			s.at--
		case '{', '[':
			depth++
			parts++
		case ',':
			if depth == 0 {
				return parts
			}
			parts++
		default:
			if depth == 0 {
				return parts
			}
			depth--
		}
		if depth == 0 {
			s.at++
			return parts
		}
	}
}

// unquoted appends what a name between its quotes says, and stops once that is more than
// most bytes.
func unquoted(to, name []byte, most int) []byte {
	for end := len(to) + most; len(name) > 0 && len(to) <= end; {
		c := name[0]
		if unit, ok := text.EscapedUnit(name); ok {
			name = name[6:]
			if utf16.IsSurrogate(unit) {
				second, _ := text.EscapedUnit(name)
				if unit = utf16.DecodeRune(unit, second); unit != utf8.RuneError {
					name = name[6:]
				}
			}
			to = utf8.AppendRune(to, unit)
			continue
		}
		if c == '\\' && len(name) > 1 {
			name = name[1:]
			c = name[0] // itself, but for these:
			if at := strings.IndexByte("bfnrt", c); at >= 0 {
				c = "\b\f\n\r\t"[at]
			}
		}
		to, name = append(to, c), name[1:]
	}
	return to
}
