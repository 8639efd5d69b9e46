package front

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// serving starts a front on a free port, stops it when the test ends, and returns its address.
func serving(t *testing.T, c Config) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if c.Handler == nil {
		c.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	}
	c.ShutdownTimeout = time.Second
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = Serve(ctx, listener, c) }()
	t.Cleanup(func() { stop(); <-served })
	return listener.Addr().String()
}

// dial opens a connection and closes it when the test ends.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn
}

// status reads the next response and returns its status.
func status(t *testing.T, conn net.Conn) int {
	t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// The front answers a connection above the limit with 429, and accepts one again after another has closed.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	const most = 3
	addr := serving(t, Config{MaxConnections: most})
	var conns []net.Conn
	for range most {
		conn := dial(t, addr)
		write(t, conn, request)
		if got := status(t, conn); got != 200 {
			t.Fatalf("a connection there is room for: %d", got)
		}
		conns = append(conns, conn)
	}
	answer, err := http.ReadResponse(bufio.NewReader(dial(t, addr)), nil)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Error, Code string }
	if err := json.NewDecoder(answer.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != 429 || problem.Code != "OVERLOADED" || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("one too many: %d %+v, header %v", answer.StatusCode, problem, answer.Header)
	}
	if rest, err := io.ReadAll(answer.Body); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("after the answer comes %q, %v", rest, err)
	}
	conns[0].Close()
	for {
		conn := dial(t, addr)
		write(t, conn, request)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && answer.StatusCode == 200 {
			return
		}
		conn.Close() // the server may not have noticed yet that one is closed
	}
}

// The front cuts off a client that sends its header too slowly or sends nothing more, and one that does not
// read its response.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	const short = 50 * time.Millisecond
	cutOff := make(chan struct{})
	huge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/huge" {
			defer close(cutOff)
			for range 1 << 10 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}
	})
	// Each front has one short limit, so that a busy machine exceeds no other one.
	for what, c := range map[string]struct {
		limit  timeouts
		sent   string
		answer bool
	}{
		"half a header":        {timeouts{header: short}, "GET / HTTP/1.1\r\nHost: x\r\n", false},
		"nothing":              {timeouts{header: short}, "", false},
		"nothing after a call": {timeouts{idle: short}, request, true},
	} {
		conn := dial(t, serving(t, Config{Handler: huge, timeouts: c.limit}))
		write(t, conn, c.sent)
		if c.answer && status(t, conn) != 200 {
			t.Errorf("%s: no answer", what)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d bytes, %v, want the end of the connection", what, n, err)
		}
	}
	conn := dial(t, serving(t, Config{Handler: huge, timeouts: timeouts{write: short}}))
	write(t, conn, strings.Replace(request, " / ", " /huge ", 1))
	<-cutOff // the client does not read before
	if n, err := io.Copy(io.Discard, conn); n >= 1<<30 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer that was not read: %d bytes, %v", n, err)
	}
}

// The front serves a request with headers up to the limit and refuses one with larger headers.
func TestMaxHeaderBytes(t *testing.T) {
	t.Parallel()
	addr := serving(t, Config{})
	// net/http reads up to 4096 bytes more than MaxHeaderBytes.
	for size, want := range map[int]int{maxHeaderBytes - 100: 200, maxHeaderBytes + 8192: 431} {
		conn := dial(t, addr)
		write(t, conn, "GET / HTTP/1.1\r\nHost: x\r\nX-Padding: "+strings.Repeat("x", size)+"\r\n\r\n")
		if got := status(t, conn); got != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, got, want)
		}
	}
}
