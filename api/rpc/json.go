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

// Codecs returns the codecs of a server's procedures, for binary messages and for JSON. They replace the codecs of
// Connect, which accept messages of any number of fields.
func Codecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(Codec{}), connect.WithCodec(jsonCodec("json")), connect.WithCodec(jsonCodec("json; charset=utf-8")),
	)
}

// jsonCodec encodes and decodes messages as JSON. Unlike the JSON codec of Connect it bounds the number of objects
// of a message and has its own errors. It has no MarshalStable, which Connect needs only for the GET requests of a
// client.
type jsonCodec string

func (c jsonCodec) Name() string { return string(c) }

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

// Unmarshal decodes a message. It ignores unknown fields, because they come from a newer client. It refuses empty
// data and more than MaxFields objects. If message is a Received, Unmarshal stores the error there and returns nil.
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

// checkObjects refuses a message with more than MaxFields objects before it is decoded, because an empty
// object of two bytes needs a hundred times as many in memory. It skips strings: the JSON documents of a job
// are strings in these messages, so their braces begin no objects of the message.
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
