package rpc

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
)

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
func (Codec) MarshalAppend(b []byte, message any) ([]byte, error) {
	switch m := message.(type) {
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
func (Codec) Unmarshal(data []byte, message any) error {
	switch m := message.(type) {
	case generated:
		return m.UnmarshalVTUnsafe(slices.Clone(data))
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return fmt.Errorf("a %T is no message", message)
}
