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

// maxQuoted limits the text of a decoder or of a header that our errors quote, because that text repeats what
// the client sent.
const maxQuoted = 256 // bytes

// Received is a message as a server receives it, or the error of decoding it. The codec does not return that
// error, because Connect would answer it by itself, without the code, details and retry delay that Error
// adds. Instead the handler of the call must check Err and return it.
type Received[T any] struct {
	Message T
	Err     error
}

func (r *Received[T]) decode(unmarshal func(data []byte, message any) error, data []byte) {
	r.Err = unmarshal(data, &r.Message)
}

// received is implemented by Received of any message.
type received interface {
	decode(unmarshal func(data []byte, message any) error, data []byte)
}

// badJSON returns the reason why a JSON message was not decoded. err is the error of the decoder, which names
// the line and the field, but does not distinguish invalid JSON from JSON that does not fit the message.
func badJSON(data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(data, &struct{}{}), &syntax) {
		return at(api.ParseError, int(syntax.Offset), "the message is not JSON at byte %d: %s", syntax.Offset, syntax.Error())
	}
	if !utf8.Valid(data) {
		n := text.InvalidUTF8(data)
		return at(api.ParseError, n, "the message is not valid UTF-8 at byte %d", n)
	}
	if n := text.LoneSurrogate(data); n >= 0 {
		return at(api.ValidationError, n, "the message holds half of a surrogate pair at byte %d: send both halves, or neither", n)
	}
	return api.Wrap(err, api.ValidationError, "the message does not fit: "+strings.TrimPrefix(decoderText(err), "syntax error "))
}

// badBinary returns the reason why a binary message was not decoded. err is the error of the decoder.
func badBinary(data []byte, err error) error {
	for n := 0; n < len(data); {
		_, _, size := protowire.ConsumeField(data[n:])
		if size < 0 {
			return at(api.ParseError, n, "the message is not protobuf at byte %d: %s", n, decoderText(protowire.ParseError(size)))
		}
		n += size
	}
	return api.Wrap(err, api.ValidationError, "the message does not fit, though its fields are whole: "+decoderText(err))
}

func at(code api.Code, position int, format string, args ...any) error {
	e := api.Errorf(code, format, args...)
	e.Details = map[string]any{"position": position}
	return e
}

// decoderText returns a decoder's error text without the name of the library. If it is longer than maxQuoted
// bytes, it ends in "...".
func decoderText(err error) string {
	words := strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))
	return text.Cut(strings.ToValidUTF8(words, ""), maxQuoted)
}
