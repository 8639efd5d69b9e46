// Package text looks into what clients send, for servers of HTTP and of the Worker RPC
// alike: whether it is Unicode, where strings of JSON end, how much of it a message
// repeats, which name a misspelt word is near to. It may import the standard library alone.
package text

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// InvalidUTF8 is the offset of the first byte that is no UTF-8; all of b where there is
// none.
func InvalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// HalfPair is where JSON has a \u escape that is half of a surrogate pair, which
// decoders would replace silently; negative without one. Clients that cut text by UTF-16
// units send such halves.
func HalfPair(json []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(json[at:], '\\')
		if n < 0 || at+n+1 >= len(json) {
			return -1
		}
		at += n
		first, ok := EscapedUnit(json[at:])
		switch {
		case !ok:
			at += 2
		case !utf16.IsSurrogate(first):
			at += 6
		default:
			second, ok := EscapedUnit(json[at+6:])
			if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
				return at
			}
			at += 12
		}
	}
}

// EscapedUnit reads the \uXXXX that JSON begins with, if it does.
func EscapedUnit(json []byte) (unit rune, ok bool) {
	if len(json) < 6 || json[0] != '\\' || json[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(json[2:6]), 16, 32)
	return rune(n), err == nil
}

// StringSize is how many bytes the string takes that JSON begins with, quotes included;
// all, and not whole, where it has no end.
func StringSize(json []byte) (size int, whole bool) {
	for at := 1; at < len(json); at++ {
		n := bytes.IndexByte(json[at:], '"')
		if n < 0 {
			break
		}
		at += n
		slashes := at
		for slashes > 1 && json[slashes-1] == '\\' {
			slashes--
		}
		if (at-slashes)%2 == 0 {
			return at + 1, true
		}
	}
	return len(json), false
}

// Cut is a text of UTF-8, or the beginning of a longer one: at most so many bytes of it,
// and "...".
func Cut[T string | []byte](text T, most int) T {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return T(append([]byte(text[:most]), "..."...))
}
