package convert

import (
	"strings"
	"unicode/utf8"
)

// maxNesting is the largest nesting of JSON, as in encoding/json. Documents have a lower limit,
// job.MaxNesting.
const maxNesting = 10000

// validJSON reports whether text is one JSON value in UTF-8, which may have white space around it. For UTF-8
// it gives the same answers as encoding/json.Valid. That function was rejected, because it calls a function
// for each byte: it takes four times as long and would be most of the cost of reading a job.
func validJSON(text string) bool {
	s := jsonScan{text: text}
	return s.value(0) && s.space() == len(text) && (!s.beyondASCII || utf8.ValidString(text))
}

// jsonScan is the position within a text. Each method reads one part of the text from there and, space
// excepted, reports whether the part is valid. beyondASCII is set when a string has a byte beyond ASCII; only
// such a text can be invalid UTF-8.
type jsonScan struct {
	text        string
	at          int
	beyondASCII bool
}

// space skips white space and returns the new position.
func (s *jsonScan) space() int {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return s.at
		}
	}
	return s.at
}

// next skips white space and then the byte c. It reports whether c followed.
func (s *jsonScan) next(c byte) bool {
	if s.space() == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	return true
}

func (s *jsonScan) value(depth int) bool {
	if s.space() == len(s.text) {
		return false
	}
	switch c := s.text[s.at]; c {
	case '{':
		s.at++
		return depth < maxNesting && s.list('}', depth+1, true)
	case '[':
		s.at++
		return depth < maxNesting && s.list(']', depth+1, false)
	case '"':
		s.at++
		return s.string()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

// list reads the members of an object or the elements of an array, after the opening bracket and up to the
// byte end. named means members.
func (s *jsonScan) list(end byte, depth int, named bool) bool {
	if s.next(end) {
		return true
	}
	for {
		if named && !(s.next('"') && s.string() && s.next(':')) || !s.value(depth) {
			return false
		}
		if s.next(end) {
			return true
		}
		if !s.next(',') {
			return false
		}
	}
}

// string reads the rest of a string after its opening quote.
func (s *jsonScan) string() bool {
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '"':
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		case c >= utf8.RuneSelf:
			s.beyondASCII = true
		}
	}
	return false
}

// escape reads the rest of an escape sequence after its backslash.
func (s *jsonScan) escape() bool {
	if s.at == len(s.text) {
		return false
	}
	c := s.text[s.at]
	s.at++
	if c != 'u' {
		return strings.IndexByte(`"\/bfnrt`, c) >= 0
	}
	if len(s.text)-s.at < 4 {
		return false
	}
	for _, c := range []byte(s.text[s.at : s.at+4]) {
		if !(digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	s.at += 4
	return true
}

func (s *jsonScan) word(w string) bool {
	if !strings.HasPrefix(s.text[s.at:], w) {
		return false
	}
	s.at += len(w)
	return true
}

func (s *jsonScan) number() bool {
	if s.text[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.text) && s.text[s.at] == '0' {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if s.at < len(s.text) && s.text[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		return s.digits()
	}
	return true
}

// digits reads at least one digit.
func (s *jsonScan) digits() bool {
	begin := s.at
	for s.at < len(s.text) && digit(s.text[s.at]) {
		s.at++
	}
	return s.at > begin
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
