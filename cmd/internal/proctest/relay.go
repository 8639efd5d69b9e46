package proctest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Relay keeps one address while the process behind it is killed and started again on another
// port.
type Relay struct {
	URL string

	mu     sync.Mutex
	target string // host:port; "" closes connections
	open   map[net.Conn]bool
}

// NewRelay listens until the end of the test. It has no target yet.
func NewRelay(t testing.TB) *Relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{URL: "http://" + listener.Addr().String(), open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.carry(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		r.To("")
		running.Wait()
	})
	return r
}

// To sends new connections to an address and closes the existing ones.
func (r *Relay) To(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = address
	for conn := range r.open {
		conn.Close()
	}
	clear(r.open)
}

func (r *Relay) carry(in net.Conn) {
	defer in.Close()
	r.mu.Lock()
	target := r.target
	r.open[in] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, in)
	}()
	if target == "" {
		return
	}
	out, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer out.Close()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(in, out)
		in.Close()
	}()
	_, _ = io.Copy(out, in)
	out.Close()
	<-back
}
