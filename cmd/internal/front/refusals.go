package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
)

// net/http refuses some requests itself, before a handler sees them, with a line of text or no body. The
// front sends these refusals as JSON, like every other error. With TLS it cannot, because net/http encrypts
// them. A front with TLS itself answers clients that send plain HTTP, because net/http answers only some methods
// and closes the connection for the others, such as DELETE.

// refusal is the error for a status with which net/http refuses a request.
type refusal struct {
	code    api.Code
	message string
}

var refusals = map[int]refusal{
	http.StatusBadRequest:                  {api.ParseError, "malformed HTTP request: correct its first line or its headers"},
	http.StatusExpectationFailed:           {api.Unsupported, "the header Expect has another value than 100-continue: leave it out"},
	http.StatusRequestHeaderFieldsTooLarge: {api.PayloadTooLarge, fmt.Sprintf("the first line and the headers of the request have more than %d bytes: send fewer or shorter ones", maxHeaderBytes)},
	http.StatusNotImplemented:              {api.Unsupported, "the request has another Transfer-Encoding than chunked: send it chunked, or with Content-Length"},
	http.StatusHTTPVersionNotSupported:     {api.Unsupported, "the server does not speak the HTTP version of the request: send HTTP/1.1 or HTTP/2"},
}

// plainHTTP is the error for a client that sends plain HTTP to a front with TLS.
var plainHTTP = refusal{api.ValidationError, "this port speaks HTTPS, and the request is plain HTTP: use the URL with https"}

// plainBytes is how much of a plain request the front reads before it closes the connection. With unread
// bytes the kernel would reset the connection, and the client could lose the response.
const plainBytes = 64 << 10

// answering is a listener whose connections know whether a handler answers.
type answering struct {
	net.Listener
	secure bool // the front serves TLS
}

// Accept returns the next connection.
func (a answering) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &answered{Conn: conn, unknown: a.secure}, nil
}

// answered is a connection that turns the refusals of net/http into JSON. All bytes pass unchanged from the
// moment a handler has the request until the connection is idle again, so that no part of a response is taken
// for a refusal.
type answered struct {
	net.Conn
	unknown bool        // the front serves TLS, and the client has sent nothing yet; used by the reader alone
	handled atomic.Bool // a handler has the request
	passes  atomic.Bool // all bytes pass, for good
}

type connKey struct{}

// errPlainHTTP ends the handshake with a client that sent plain HTTP.
var errPlainHTTP = errors.New("the client sent plain HTTP to a port with TLS")

// Read reads from the connection. It answers a client that sends plain HTTP to a front with TLS: a request begins
// with an upper-case letter, and a TLS handshake with the byte 22.
func (a *answered) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	if n == 0 || !a.unknown {
		return n, err
	}
	if a.unknown = false; b[0] < 'A' || b[0] > 'Z' {
		return n, err
	}
	_ = a.Conn.SetDeadline(time.Now().Add(turnAwayTimeout))
	if _, err := a.Conn.Write(plainHTTP.response(http.StatusBadRequest)); err == nil {
		_, _ = io.CopyN(io.Discard, a.Conn, plainBytes) // until the client closes the connection
	}
	return 0, errPlainHTTP
}

// Write writes b, or the JSON form of b if it is a refusal. net/http writes a refusal in one piece.
func (a *answered) Write(b []byte) (int, error) {
	if a.handled.Load() || a.passes.Load() {
		return a.Conn.Write(b)
	}
	told := refusalOf(b)
	if told == nil {
		return a.Conn.Write(b)
	}
	if _, err := a.Conn.Write(told); err != nil {
		return 0, err
	}
	return len(b), nil
}

// refusalOf returns the JSON response that replaces b; nil if b does not begin with the status line of an
// error in refusals.
func refusalOf(b []byte) []byte {
	const line = "HTTP/1.1 400 "
	if len(b) < len(line) || !bytes.HasPrefix(b, []byte("HTTP/1.")) {
		return nil
	}
	status, err := strconv.Atoi(string(b[len("HTTP/1.1 "):len("HTTP/1.1 400")]))
	r, ok := refusals[status]
	if err != nil || !ok {
		return nil
	}
	// net/http may name the fault after the status, in words of its own.
	_, why, _ := bytes.Cut(b, []byte("\r\n\r\n"))
	_, why, _ = bytes.Cut(why, []byte(": "))
	if message := string(why); status == http.StatusBadRequest && message != "" {
		r.message += " (" + message + ")"
	}
	return r.response(status)
}

// response returns the refusal as an HTTP response, after which the connection closes.
func (r refusal) response(status int) []byte {
	body, err := json.Marshal(struct {
		Error string   `json:"error"`
		Code  api.Code `json:"code"`
	}{r.message, r.code})
	if err != nil {
		return nil
	}
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", status, http.StatusText(status), len(body)+1)
	return append(append([]byte(head), body...), '\n')
}

// watch makes a server tell its connections when a handler has a request and when its response is written.
// net/http reports an HTTP/1 connection idle after it has written out the response. An HTTP/2 connection
// carries several requests, and net/http sends no such refusals on it.
func watch(srv *http.Server) {
	next := srv.Handler
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	srv.ConnState = func(conn net.Conn, to http.ConnState) {
		if a, ok := conn.(*answered); ok && to == http.StateIdle {
			a.handled.Store(false)
		}
	}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a, ok := r.Context().Value(connKey{}).(*answered); ok {
			if r.ProtoMajor == 1 {
				a.handled.Store(true)
			} else {
				a.passes.Store(true)
			}
		}
		next.ServeHTTP(w, r)
	})
}
