package rpc

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// Encoded is a message for several receivers. Each codec encodes it only once. It is safe for concurrent use.
// The message must not change after Encode.
type Encoded struct {
	message proto.Message
	count   func(bytes int)

	mu           sync.Mutex
	binary, text []byte
}

// Encode returns an Encoded of the message. Each codec calls count once, with the number of bytes, when it
// has encoded the message. count must not be nil.
func Encode(message proto.Message, count func(bytes int)) *Encoded {
	return &Encoded{message: message, count: count}
}

// bytes encodes the message with a codec, or returns the bytes that the codec encoded before.
func (e *Encoded) bytes(kept *[]byte, encode func(any) ([]byte, error)) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *kept != nil {
		return *kept, nil
	}
	b, err := encode(e.message)
	if err != nil {
		return nil, err
	}
	*kept = b
	e.count(len(b))
	return b, nil
}
