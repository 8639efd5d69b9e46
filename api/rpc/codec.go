package rpc

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
)

// MaxFields is how many fields a message may have at its top, where each item of a list
// is one: several times what any list may have that is sent.
const MaxFields = 8192

// Codec encodes messages as binary protobuf, by the generated code where there is some.
// It is for both ends: connect.WithCodec.
type Codec struct{}

// generated is what messages with generated code can do.
type generated interface {
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVTUnsafe([]byte) error
}

// Name is that of the encoding, by which it takes the place of the library's own.
func (Codec) Name() string { return "proto" }

// IsBinary says that it is no text.
func (Codec) IsBinary() bool { return true }

// Marshal encodes a message.
func (c Codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend encodes a message behind what is in b.
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

// Unmarshal decodes a message. Its strings lie in one copy of the data, which the caller
// uses again, instead of in one each.
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

// checkFields refuses a message with more fields than any that makes sense, before they
// are decoded: an empty item of a list takes two bytes, and a hundred times that in
// memory. What cannot be read is left to the decoder to complain of.
func checkFields(data []byte) error {
	if len(data) <= 2*MaxFields {
		return nil // a field has a tag and something behind it
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
