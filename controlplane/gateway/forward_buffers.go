package gateway

import "sync"

// bufferBytes is the number of bytes that are copied at a time.
const bufferBytes = 32 << 10

// buffers reuses the proxy's copy buffers. It implements httputil.BufferPool.
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
