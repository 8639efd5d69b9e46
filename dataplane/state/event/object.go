package event

import (
	"strconv"
	"unicode/utf8"

	"github.com/corvo/corvo/dataplane/job"
)

// object is a JSON object that is being written: its members in their order, without
// space. It is written here, and not by encoding/json, because every replica must
// write the same bytes, whatever its binary was built with.
type object []byte

// add appends a member; it does nothing where the value is nil, or leaves no room.
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

// quoted is a text as a JSON string.
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
		default: // what is no UTF-8 becomes U+FFFD
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// compact is JSON on one line and without space between its tokens.
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

// amount is a number that may be negative; nil for 0.
func amount(n int64) []byte {
	if n == 0 {
		return nil
	}
	return strconv.AppendInt(nil, n, 10)
}
