package rpc

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
)

// MaxFields is the largest number of fields of a binary message. Each item of a list counts as a field; the
// fields within an item do not count. MaxFields is also the largest number of objects of a JSON message. It
// is several times the length of the longest permitted list.
const MaxFields = 8192

// Codec encodes messages as binary protobuf, with the generated code if a message has it. Clients and servers
// use it with connect.WithCodec.
type Codec struct{}

// generated is implemented by messages with generated code.
type generated interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVTUnsafe([]byte) error
}

// Name returns the name of the encoding. Connect has a codec of this name, which Codec replaces.
func (Codec) Name() string { return "proto" }

// Marshal encodes a message.
func (c Codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend encodes a message and appends it to b.
func (c Codec) MarshalAppend(b []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case *Encoded:
		encoded, err := m.bytes(&m.binary, c.Marshal)
		return append(b, encoded...), err
	case generated:
		size := m.SizeVT()
		b = slices.Grow(b, size)
		end := len(b) + size
		_, err := m.MarshalToSizedBufferVT(b[len(b):end])
		return b[:end], err
	case proto.Message:
		return proto.MarshalOptions{}.MarshalAppend(b, m)
	}
	return nil, fmt.Errorf("a %T is no message", message)
}

// Unmarshal decodes a message. If the message has generated code, Unmarshal refuses more than MaxFields
// fields. It then copies the data once, because the caller reuses the data, and lets all strings point into
// the copy instead of copying each. If message is a Received, Unmarshal stores the error there and returns
// nil.
func (c Codec) Unmarshal(data []byte, message any) error {
	switch m := message.(type) {
	case received:
		m.decode(c.Unmarshal, data)
		return nil
	case generated:
		if err := checkFields(data); err != nil {
			return err
		}
		if err := m.UnmarshalVTUnsafe(slices.Clone(data)); err != nil {
			return badBinary(data, err)
		}
		return nil
	case proto.Message:
		if err := proto.Unmarshal(data, m); err != nil {
			return badBinary(data, err)
		}
		return nil
	}
	return fmt.Errorf("a %T is no message", message)
}

// checkFields refuses a message with more than MaxFields fields before it is decoded, because an empty item
// of a list has two bytes and needs a hundred times as many in memory. It does not count fields within nested
// messages, and leaves damaged data to the decoder.
func checkFields(data []byte) error {
	if len(data) <= 2*MaxFields {
		return nil // a field has at least two bytes: a tag and a value
	}
	for n := 0; len(data) > 0; n++ {
		if n == MaxFields {
			return api.Errorf(api.ValidationError, "the message has more than %d fields: send shorter lists", MaxFields)
		}
		_, _, size := protowire.ConsumeField(data)
		if size < 0 {
			return nil
		}
		data = data[size:]
	}
	return nil
}
