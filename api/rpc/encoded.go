package rpc

import (
	"sync"

	"google.golang.org/protobuf/proto"
)

// Encoded is a message that is sent to several receivers: each codec encodes it once. It
// is safe for concurrent use; the message must not change any more.
type Encoded struct {
	message proto.Message
	count   func(bytes int)

	mu           sync.Mutex
	binary, text []byte
}

// Encode makes a message to be encoded once by each codec, which calls count.
func Encode(message proto.Message, count func(bytes int)) *Encoded {
	return &Encoded{message: message, count: count}
}

// bytes encodes the message with a codec, or returns what that has encoded before.
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
