package rpc

import (
	"bytes"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
)

// Codecs returns the codecs of a server's procedures. They replace the codecs of Connect, which accept
// messages of any number of fields.
func Codecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(Codec{}), connect.WithCodec(jsonCodec("json")), connect.WithCodec(jsonCodec("json; charset=utf-8")),
	)
}

// jsonCodec encodes messages as JSON. Except for its limit and its errors it behaves like the JSON codec of
// Connect.
type jsonCodec string

func (c jsonCodec) Name() string { return string(c) }

// IsBinary returns false, because JSON is text.
func (jsonCodec) IsBinary() bool { return false }

func (c jsonCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

func (c jsonCodec) MarshalAppend(b []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case *Encoded:
		encoded, err := m.bytes(&m.text, c.Marshal)
		return append(b, encoded...), err
	case proto.Message:
		return protojson.MarshalOptions{}.MarshalAppend(b, m)
	}
	return nil, fmt.Errorf("a %T is no message", message)
}

// Unmarshal decodes a message. It ignores unknown fields, because they come from a newer client.
func (c jsonCodec) Unmarshal(data []byte, message any) error {
	switch m := message.(type) {
	case received:
		m.decode(c.Unmarshal, data)
		return nil
	case proto.Message:
		if len(data) == 0 {
			return api.Errorf(api.ParseError, "an empty body is not JSON: send {}")
		}
		if err := checkObjects(data); err != nil {
			return err
		}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
			return badJSON(data, err)
		}
		return nil
	}
	return fmt.Errorf("a %T is no message", message)
}

// checkObjects is checkFields for JSON. It counts objects, because they need a hundred times their size
// in memory. It skips strings: documents travel as strings here, and braces in a string are no objects.
func checkObjects(data []byte) error {
	if len(data) <= 2*MaxFields {
		return nil
	}
	for n := 0; ; data = data[1:] {
		at := bytes.IndexAny(data, `{"`)
		if at < 0 {
			return nil
		}
		if data = data[at:]; data[0] == '"' {
			size, _ := text.StringSize(data)
			data = data[size-1:]
		} else if n++; n > MaxFields {
			return api.Errorf(api.ValidationError, "the message has more than %d objects: send shorter lists", MaxFields)
		}
	}
}
