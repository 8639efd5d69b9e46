package event

import (
	"strconv"
	"unicode/utf8"

	"github.com/corvo/corvo/dataplane/job"
)

// object is a JSON object under construction: its members in order, without spaces. object does not use
// encoding/json, because every replica must write the same bytes, even if their binaries were built with
// different versions of Go.
type object []byte

// add appends a member. It does nothing if the value is nil or would make the data longer than
// job.MaxEventData.
func (o *object) add(name string, value []byte) {
	if value == nil || len(*o)+len(name)+len(value)+len(`,"":}`) > job.MaxEventData {
		return
	}
	b := append(*o, "{,"[min(len(*o), 1)], '"')
	*o = append(append(append(b, name...), `":`...), value...)
}

func (o object) end() []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	return append(o, '}')
}

const hex = "0123456789abcdef"

// quoted encodes a string as JSON.
func quoted(s string) []byte {
	b := append(make([]byte, 0, len(s)+2), '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		default: // invalid UTF-8 becomes U+FFFD
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// compact removes the spaces between the tokens of a valid JSON text.
func compact(text []byte) []byte {
	b, inString := make([]byte, 0, len(text)), false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString && c == '\\':
			b = append(b, c, text[i+1])
			i++
			continue
		case c == '"':
			inString = !inString
		case !inString && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			continue
		}
		b = append(b, c)
	}
	return b
}

// amount encodes a number that may be negative; it returns nil for 0.
func amount(n int64) []byte {
	if n == 0 {
		return nil
	}
	return strconv.AppendInt(nil, n, 10)
}
