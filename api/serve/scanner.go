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

// scanner goes through a JSON text in one pass without allocations. It assumes that the text is valid: in an
// invalid text it may stop anywhere or misread values.
type scanner struct {
	text []byte
	at   int
}

// peek returns the next byte that is not white space, or 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c > ' ' {
			return c
		}
	}
	return 0
}

// over skips the byte c if it is next, and reports whether it was.
func (s *scanner) over(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// members enters the next object and yields the text between the quotes of each name. The caller must go over
// the value of each.
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

// elements enters the next list and yields the index of each element. The caller must go over each
// element.
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

// raw goes over a value and returns its text.
func (s *scanner) raw() json.RawMessage {
	s.peek()
	begin := s.at
	s.skip()
	return bytes.TrimRight(s.text[begin:s.at], " \t\r\n")
}

// string goes over a string and returns the text between its quotes.
func (s *scanner) string() []byte {
	begin := s.at
	size, whole := text.StringSize(s.text[begin:])
	if s.at += size; !whole {
		return nil
	}
	return s.text[begin+1 : s.at-1]
}

// structural marks the bytes that bound values.
var structural = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true, ',': true}

// skip goes over any value and returns the number of members and elements in it, at all depths. An empty list
// or object counts as one part.
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

// unquoted appends the decoded text of a name to the slice to. It stops once that text has more than `most`
// bytes.
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
			c = name[0] // stands for itself, except for:
			if at := strings.IndexByte("bfnrt", c); at >= 0 {
				c = "\b\f\n\r\t"[at]
			}
		}
		to, name = append(to, c), name[1:]
	}
	return to
}
