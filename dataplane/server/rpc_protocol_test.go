package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
)

// A call in an unknown protocol gets the list of protocols.
func TestRPCSaysWhatItSpeaks(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	plain := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(plain.CloseIdleConnections)
	for _, c := range []struct {
		client                *http.Client
		procedure, kind, says string
		status                int
	}{
		{plain, "Enqueue", "text/xml", "application/json", 415},
		{plain, "Enqueue", "", "application/grpc-web+proto", 415},
		{h2c(t), "Enqueue", "application/x-www-form-urlencoded", "application/proto", 415},
		{h2c(t), "StreamLifecycle", "application/json", "application/connect+json", 415},
		{plain, "StreamLifecycle", "application/json", "needs HTTP/2", 505},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", url+rpc.Prefix+c.procedure, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+n.admin)
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		a, err := c.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		a.Body.Close()
		var told struct {
			Code, Message string
			Details       []struct{ Type string }
		}
		if err := errors.Join(err, json.Unmarshal(body, &told)); err != nil {
			t.Fatalf("%s with %q: %s: %v", c.procedure, c.kind, body, err)
		}
		what := fmt.Sprintf("%s with %q: ", c.procedure, c.kind)
		equal(t, what+"code", told.Code, "unimplemented")
		equal(t, what+"details", len(told.Details), 1)
		if !strings.Contains(told.Message, c.says) {
			t.Errorf("%sthe error is %q, want %q", what, told.Message, c.says)
		}
		if a.StatusCode != c.status || a.Header.Get("Content-Type") != "application/json" || a.Header.Get(rpc.CodeHeader) != "UNSUPPORTED" {
			t.Errorf("%s with %q: %d %v", c.procedure, c.kind, a.StatusCode, a.Header)
		}
	}
}

// A call in a protocol that the procedure does not support is refused in that protocol.
func TestRPCSaysWhatItSpeaksInTheProtocol(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	plain := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(plain.CloseIdleConnections)
	for name, protocol := range map[string]connect.ClientOption{
		"connect": connect.WithClientOptions(), "gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(),
	} {
		other := connect.WithCodec(sends{rpc.Codec{}, "thrift", "{}"})
		_, unary := rpcClient(t, h2c(t), url, n.admin, protocol, other).Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{}))
		stream := rpcClient(t, h2c(t), url, n.admin, protocol, other).StreamLifecycle(t.Context())
		if err := stream.Send(nil); err != nil {
			t.Fatal(err)
		}
		_, streamed := stream.Receive()
		answers := map[error]string{unary: "content types", streamed: "content types"}
		// Streams of HTTP/1.1 have at most one direction: Connect's client opens no other.
		oneWay := connect.NewClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse](plain, url+rpc.Prefix+"StreamLifecycle", protocol, connect.WithInterceptors(keyed(n.admin)))
		old, err := oneWay.CallServerStream(t.Context(), rpcOf(&workerpb.StreamLifecycleRequest{}))
		if err == nil {
			old.Receive()
			err = old.Err()
		}
		answers[err] = "needs HTTP/2"
		for err, says := range answers {
			wantRPCError(t, name, err, api.Unsupported, says)
			equal(t, name, connect.CodeOf(err), connect.CodeUnimplemented)
		}
	}
}
