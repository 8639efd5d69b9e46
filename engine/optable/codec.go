package optable

import "google.golang.org/protobuf/proto"

// generated is the codec that vtproto generates for a message. It uses no reflection.
type generated interface {
	SizeVT() int
	MarshalVT() ([]byte, error)
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

// reflected encodes the messages without a generated codec, each message always to the same bytes.
var reflected = proto.MarshalOptions{Deterministic: true}

// Size returns the number of bytes that Marshal returns.
func Size(m proto.Message) int {
	if fast, ok := m.(generated); ok {
		return fast.SizeVT()
	}
	return reflected.Size(m)
}

// Marshal encodes a message, with its generated codec if it has one.
func Marshal(m proto.Message) ([]byte, error) {
	if fast, ok := m.(generated); ok {
		return fast.MarshalVT()
	}
	return reflected.Marshal(m)
}

// Unmarshal decodes data into an empty message, with its generated codec if it has one. The message shares no
// memory with data.
func Unmarshal(data []byte, into proto.Message) error {
	if fast, ok := into.(generated); ok {
		return fast.UnmarshalVT(data)
	}
	return proto.Unmarshal(data, into)
}
