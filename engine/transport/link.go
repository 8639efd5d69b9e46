package transport

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// link is TLS over a socket. crypto/tls reads and writes records of at most 16 KiB, each with its own system
// call. A link reads as much as is available, and writes all records of a Write with one call.
type link struct {
	*tls.Conn
	socket *socket
	key    string // the key of the peer's certificate (see KeyOf)
}

// record is the size of the largest TLS record, in bytes.
const record = 16 << 10

// Write must be called from one goroutine at a time.
func (l *link) Write(b []byte) (int, error) {
	if len(b) <= record {
		return l.Conn.Write(b)
	}
	l.socket.cork()
	n, err := l.Conn.Write(b)
	return n, errors.Join(err, l.socket.uncork())
}

// Close sends no close-notify alert, which might wait for a blocked Write. The other end recognises a
// truncated message without it, because frames have lengths.
func (l *link) Close() error { return l.socket.Close() }

// socket is a network connection that can collect writes.
type socket struct {
	net.Conn
	in *bufio.Reader

	mu      sync.Mutex // TLS may write on its own while it reads
	holding bool
	held    []byte
}

func newSocket(c net.Conn) *socket { return &socket{Conn: c, in: bufio.NewReaderSize(c, MaxFrame)} }

func (s *socket) Read(b []byte) (int, error) { return s.in.Read(b) }

func (s *socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holding {
		s.held = append(s.held, b...)
		return len(b), nil
	}
	return s.Conn.Write(b)
}

func (s *socket) cork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
}

// uncork writes the collected bytes.
func (s *socket) uncork() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.Conn.Write(s.held)
	s.holding, s.held = false, s.held[:0]
	return err
}
