package transport

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"sync"
)

// link is TLS over a socket. crypto/tls reads and writes records, of 16 KiB at
// most, each with system calls of its own; a link reads as much as there is and
// writes all records of a Write at once.
type link struct {
	*tls.Conn
	socket *socket
	key    string // the key of the peer's certificate, see KeyOf
}

// record is the most that goes in one record, in bytes.
const record = 16 << 10

// Write is for one goroutine at a time.
func (l *link) Write(b []byte) (int, error) {
	if len(b) <= record {
		return l.Conn.Write(b)
	}
	l.socket.hold()
	n, err := l.Conn.Write(b)
	return n, errors.Join(err, l.socket.release())
}

// Close says no farewell, which might wait for a Write that hangs: frames have
// lengths, so the other end tells a message that is cut off without it.
func (l *link) Close() error { return l.socket.Close() }

// socket is a network connection that can hold back what is written.
type socket struct {
	net.Conn
	in *bufio.Reader

	mu      sync.Mutex // TLS may write, of its own accord, while it reads
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

func (s *socket) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
}

// release writes what was held back.
func (s *socket) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.Conn.Write(s.held)
	s.holding, s.held = false, s.held[:0]
	return err
}
