package rpc

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/corvo/corvo/api"
)

// maxSaid bounds what an error repeats of a decoder's words, which repeat the message.
const maxSaid = 256 // bytes

// Received is a message as a server receives it, or why it cannot be decoded: such an
// error of a codec Connect answers by itself, with none of what Error puts into one, so
// it is kept for whoever serves the call.
type Received[T any] struct {
	Message T
	Err     error
}

func (r *Received[T]) decode(unmarshal func(data []byte, message any) error, data []byte) {
	r.Err = unmarshal(data, &r.Message)
}

// received is a Received of whichever message.
type received interface {
	decode(unmarshal func(data []byte, message any) error, data []byte)
}

// badJSON says why JSON was not decoded, where the decoder's error is err: its words
// know the line and the field, but not what is no JSON and what no such message.
func badJSON(data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(data, &struct{}{}), &syntax) {
		return at(api.ParseError, int(syntax.Offset), "the message is not JSON at byte %d: %s", syntax.Offset, syntax.Error())
	}
	if !utf8.Valid(data) {
		n := invalidUTF8(data)
		return at(api.ParseError, n, "the message is not valid UTF-8 at byte %d", n)
	}
	if n := halfPair(data); n >= 0 {
		return at(api.ValidationError, n, "the message holds half of a surrogate pair at byte %d: send both halves, or neither", n)
	}
	return api.Wrap(err, api.ValidationError, "the message does not fit: "+strings.TrimPrefix(said(err), "syntax error "))
}

// badBinary says why a binary message was not decoded, where the decoder's error is err.
func badBinary(data []byte, err error) error {
	for n := 0; n < len(data); {
		_, _, size := protowire.ConsumeField(data[n:])
		if size < 0 {
			return at(api.ParseError, n, "the message is not protobuf at byte %d: %s", n, said(protowire.ParseError(size)))
		}
		n += size
	}
	return api.Wrap(err, api.ValidationError, "the message does not fit, though its fields are whole: "+said(err))
}

func at(code api.Code, position int, format string, args ...any) error {
	e := api.Errorf(code, format, args...)
	e.Details = map[string]any{"position": position}
	return e
}

// said is what a decoder says, without the library's name and at a bounded length.
func said(err error) string {
	text := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "..."
	}
	return text
}

// invalidUTF8 is where the first byte is that is no UTF-8.
func invalidUTF8(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// halfPair is where valid JSON has an escape that is half of a surrogate pair, or
// negative. Clients that cut text by UTF-16 units send such halves.
func halfPair(data []byte) int {
	for n := 0; n < len(data); n++ {
		if data[n] != '\\' {
			continue
		}
		first := escaped(data[n:])
		switch {
		case first < 0:
			n++ // what is escaped may be a backslash
		case !utf16.IsSurrogate(first):
			n += 5
		case utf16.DecodeRune(first, escaped(data[n+6:])) == utf8.RuneError:
			return n
		default:
			n += 11
		}
	}
	return -1
}

// escaped is the unit of the \uXXXX that data begins with; negative without one.
func escaped(data []byte) rune {
	var unit [2]byte
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	if _, err := hex.Decode(unit[:], data[2:6]); err != nil {
		return -1
	}
	return rune(unit[0])<<8 | rune(unit[1])
}
