package rpc

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
)

// A message that cannot be decoded has a code and an error with the position of the fault. Received keeps
// that error, because Connect would not.
func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	text, binary := jsonCodec("json").Unmarshal, Codec{}.Unmarshal
	for _, c := range []struct {
		unmarshal func([]byte, any) error
		data      string
		code      api.Code
		says      string
	}{
		{text, ``, api.ParseError, "send {}"},
		{text, ` `, api.ParseError, "not JSON at byte 1: unexpected end"},
		{text, `{"queue":`, api.ParseError, "not JSON at byte 9"},
		{text, `{"queue":'a'}`, api.ParseError, "not JSON at byte 10: invalid character"},
		{text, `{} {}`, api.ParseError, "not JSON at byte 4"},
		{text, "{\"queue\":\"é\xff\"}", api.ParseError, "not valid UTF-8 at byte 12"},
		{text, `{"queue":5}`, api.ValidationError, "(line 1:10): invalid value for string field queue: 5"},
		{text, "{\n\"agent\":{\"maxIterations\":\"x\"}}", api.ValidationError, "(line 2:26): invalid value for int32 field maxIterations"},
		{text, `{"queue":"a","queue":"b"}`, api.ValidationError, "duplicate field"},
		{text, `[]`, api.ValidationError, "(line 1:1): unexpected token ["},
		{text, `null`, api.ValidationError, "(line 1:1): unexpected token null"},
		{text, `{"queue":"a\ud800"}`, api.ValidationError, "half of a surrogate pair at byte 11"},
		{text, `{"queue":"\ud800"`, api.ParseError, "not JSON"},
		{text, `{"a":"\\ud800\u00e9\ud83d\ude00","queue":"\ude00\ud83d"}`, api.ValidationError, "half of a surrogate pair at byte 42"},
		{text, `{"queue":"\ud83dx"}`, api.ValidationError, "half of a surrogate pair at byte 10"},
		{text, `{"queue":["` + strings.Repeat("é", 1000) + `"]}`, api.ValidationError, "does not fit"},
		{text, `{"queue":5` + strings.Repeat("5", 1000) + `}`, api.ValidationError, "..."},
		{binary, "\x0a\x01q\x12\x05ab", api.ParseError, "not protobuf at byte 3: unexpected EOF"},
		{binary, "\x0a\x01q\x07", api.ParseError, "not protobuf at byte 3: "},
		{binary, "\x08\x01", api.ValidationError, "wrong wireType = 0 for field Queue"},
	} {
		var m workerpb.EnqueueRequest
		err := c.unmarshal([]byte(c.data), &m)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Message, c.says) {
			t.Errorf("%.40q: %v, want %s %s", c.data, err, c.code, c.says)
			continue
		}
		if strings.Contains(e.Message, "proto:") || len(e.Message) > maxQuoted+100 || !utf8.ValidString(e.Message) {
			t.Errorf("%.40q: says %q", c.data, e.Message)
		}
		var kept Received[workerpb.EnqueueRequest]
		if err := c.unmarshal([]byte(c.data), &kept); err != nil || kept.Err == nil || kept.Err.Error() != e.Error() {
			t.Errorf("%.40q: received with %v, %v", c.data, kept.Err, err)
		}
	}
	for data, unmarshal := range map[string]func([]byte, any) error{`{"queue":"\ud83d\ude00"}`: text, "\x0a\x04😀": binary} {
		var kept Received[workerpb.EnqueueRequest]
		if err := unmarshal([]byte(data), &kept); err != nil || kept.Err != nil || !proto.Equal(&kept.Message, &workerpb.EnqueueRequest{Queue: "😀"}) {
			t.Errorf("%q: %v, %v, %v", data, &kept.Message, kept.Err, err)
		}
	}
}
