package rpc

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
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
		n := text.InvalidUTF8(data)
		return at(api.ParseError, n, "the message is not valid UTF-8 at byte %d", n)
	}
	if n := text.HalfPair(data); n >= 0 {
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
	words := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
	return text.Cut(strings.ToValidUTF8(words, ""), maxSaid)
}
