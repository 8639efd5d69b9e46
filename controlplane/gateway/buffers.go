package gateway

import "sync"

// bufferBytes is how much of a body is copied at once.
const bufferBytes = 32 << 10

// buffers keeps the proxy's copy buffers for reuse.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return p[:]
	}
	return make([]byte, bufferBytes)
}

func (b *buffers) Put(buffer []byte) {
	if cap(buffer) >= bufferBytes {
		b.pool.Put((*[bufferBytes]byte)(buffer[:bufferBytes]))
	}
}
