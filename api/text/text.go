// Package text examines the text that clients send, for servers of HTTP and of the Worker RPC alike:
// invalid Unicode, the ends of JSON strings, nesting, excerpts for error messages, and the name nearest
// to a misspelt word. It may import only the standard library.
package text

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// InvalidUTF8 returns the offset of the first byte that is not valid UTF-8, or len(b) if there is none.
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

// LoneSurrogate returns the offset of the first \u escape in JSON that is one half of a surrogate pair
// without the other, or a negative number if there is none. Decoders would silently replace such a half.
// Clients that cut text by UTF-16 units send such halves.
func LoneSurrogate(json []byte) int {
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

// EscapedUnit parses the \uXXXX escape at the beginning of json. ok is false if there is none.
func EscapedUnit(json []byte) (unit rune, ok bool) {
	if len(json) < 6 || json[0] != '\\' || json[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(json[2:6]), 16, 32)
	return rune(n), err == nil
}

// StringSize returns the number of bytes of the JSON string at the beginning of json, quotes included. If the
// string has no end, it returns len(json) and false.
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

// MaxQuoted bounds the bytes of a refused value that Quote repeats.
const MaxQuoted = 64

// Quote returns a refused value in quotes for an error message. Of a value longer than MaxQuoted it quotes
// only the beginning and appends "...".
func Quote[T string | []byte](text T) string {
	if start := Head(text, MaxQuoted); len(start) < len(text) {
		return strconv.Quote(string(start)) + "..."
	}
	return strconv.Quote(string(text))
}

// Cut returns a text of at most `most` bytes as it is. Of a longer one it returns Head and "...".
func Cut[T string | []byte](text T, most int) T {
	if len(text) <= most {
		return text
	}
	return T(append([]byte(Head(text, most)), "..."...))
}

// Head returns the first `most` bytes of the text, or a few fewer, so that it does not split a UTF-8
// character.
func Head[T string | []byte](text T, most int) T {
	if len(text) <= most {
		return text
	}
	for back := 0; back < utf8.UTFMax && most > 0 && !utf8.RuneStart(text[most]); back++ {
		most--
	}
	return text[:most]
}
