package front

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/corvo/corvo/api"
)

// net/http refuses some requests itself, before a handler sees them, with a line of text or no body. The
// front sends these refusals as JSON, like every other error. With TLS it cannot, because net/http encrypts
// them, except for the refusal of plain HTTP.

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

// answering is a listener whose connections know whether a handler answers.
type answering struct{ net.Listener }

// Accept returns the next connection.
func (a answering) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &answered{Conn: conn}, nil
}

// answered is a connection that turns the refusals of net/http into JSON. All bytes pass unchanged from the
// moment a handler has the request until the connection is idle again, so that no part of a response is taken
// for a refusal.
type answered struct {
	net.Conn
	handled atomic.Bool // a handler has the request
	passes  atomic.Bool // all bytes pass, for good
}

type connKey struct{}

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
