package serve

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// halfPair says whether JSON text holds a \u escape that is half of a surrogate
// pair, which encoding/json would replace silently where it decodes a string.
// Clients that cut text by UTF-16 units send such halves.
func halfPair(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || at+1 >= len(text) {
			return false
		}
		text = text[at:]
		first, ok := escapedUnit(text)
		switch {
		case !ok:
			text = text[2:]
		case !utf16.IsSurrogate(first):
			text = text[6:]
		default:
			second, ok := escapedUnit(text[6:])
			if !ok || utf16.DecodeRune(first, second) == '\uFFFD' {
				return true
			}
			text = text[12:]
		}
	}
}

// escapedUnit reads the \uXXXX that text begins with, if it does.
func escapedUnit(text []byte) (unit rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	return rune(n), err == nil
}
