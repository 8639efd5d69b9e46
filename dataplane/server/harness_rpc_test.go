package server_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

// rpcFront serves a node as its process does: HTTP/1.1 and HTTP/2 by prior knowledge.
func (n *node) rpcFront() (url string) {
	n.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	front := &http.Server{Handler: n.server, Protocols: both}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = front.Serve(listener) }()
	n.t.Cleanup(func() { n.server.Drain(); front.Close(); <-ended })
	return "http://" + listener.Addr().String()
}

// keyed puts a credential on calls of Connect.
type keyed string

func (k keyed) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		if k != "" {
			r.Header().Set("Authorization", "Bearer "+string(k))
		}
		return next(ctx, r)
	}
}

func (k keyed) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, s connect.Spec) connect.StreamingClientConn {
		c := next(ctx, s)
		if k != "" {
			c.RequestHeader().Set("X-API-Key", string(k))
		}
		return c
	}
}

func (k keyed) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// h2c returns a client that uses HTTP/2 from the first byte.
func h2c(t testing.TB) *http.Client {
	t.Helper()
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: p}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// rpcClient returns a client of a running node.
func rpcClient(t testing.TB, h *http.Client, url, key string, options ...connect.ClientOption) workerpbconnect.WorkerServiceClient {
	t.Helper()
	return workerpbconnect.NewWorkerServiceClient(h, url, append(options, connect.WithInterceptors(keyed(key)))...)
}

// rpcOf returns the request of a call.
func rpcOf[T any](m *T) *connect.Request[T] { return connect.NewRequest(m) }

// wantRPCError checks the code and the text of a call's error, and returns the error.
func wantRPCError(t testing.TB, what string, err error, code api.Code, says string) *api.Error {
	t.Helper()
	e := rpc.FromError(err)
	if e == nil {
		t.Fatalf("%s: %v, want %s", what, err, code)
		return nil
	}
	equal(t, what+": code", e.Code, code)
	if !strings.Contains(e.Message, says) {
		t.Errorf("%s: the error is %q, want %q", what, e.Message, says)
	}
	return e
}

// streamClient is a client's end of a worker stream.
type streamClient = connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]

// stream opens a stream and waits for its headers.
func (n *node) stream(url, key string) *streamClient {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n.t.Cleanup(cancel)
	s := rpcClient(n.t, h2c(n.t), url, key).StreamLifecycle(ctx)
	if err := s.Send(nil); err != nil {
		n.t.Fatal(err)
	}
	return s
}

// exchange sends one frame and returns its answer.
func exchange(t *testing.T, s *streamClient, m *workerpb.StreamLifecycleRequest) *workerpb.StreamLifecycleResponse {
	t.Helper()
	if err := s.Send(m); err != nil {
		t.Fatal(err)
	}
	out, err := s.Receive()
	if err != nil || out.RequestId != m.RequestId {
		t.Fatalf("%v, %v", out, err)
	}
	return out
}
