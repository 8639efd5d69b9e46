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

// Codecs are those of a server's procedures, in the place of the library's own, which
// decode whatever they are sent.
func Codecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(Codec{}), connect.WithCodec(jsonCodec("json")), connect.WithCodec(jsonCodec("json; charset=utf-8")),
	)
}

// jsonCodec encodes messages as JSON. It is what Connect has under this name, but for
// its bound.
type jsonCodec string

func (c jsonCodec) Name() string { return string(c) }

// IsBinary says that it is text.
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

// Unmarshal decodes a message. Fields it does not know are those of a newer client.
func (c jsonCodec) Unmarshal(data []byte, message any) error {
	switch m := message.(type) {
	case received:
		m.decode(c.Unmarshal, data)
		return nil
	case proto.Message:
		if len(data) == 0 {
			return api.Errorf(api.ParseError, "no bytes are no JSON: send {}")
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

// checkObjects is checkFields for JSON, where it is objects that take a hundred times
// their size: documents are texts here, in which braces are none.
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
