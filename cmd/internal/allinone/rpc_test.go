package allinone

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

// The gateway passes calls and streams of the RPC in every protocol. The key selects the namespace.
func TestRPCPassesTheGateway(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	id, key, _ := c.namespace(t, "calls")
	_, otherKey, _ := c.namespace(t, "others")
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	two := new(http.Protocols)
	two.SetUnencryptedHTTP2(true)
	h2c, plain := &http.Transport{Protocols: two}, &http.Transport{}
	defer h2c.CloseIdleConnections()
	defer plain.CloseIdleConnections()
	worker := func(over *http.Transport, options ...connect.ClientOption) workerpbconnect.WorkerServiceClient {
		return workerpbconnect.NewWorkerServiceClient(&http.Client{Transport: over}, c.Endpoint, options...)
	}
	enqueue := func(w workerpbconnect.WorkerServiceClient, secret string) error {
		r := connect.NewRequest(&workerpb.EnqueueRequest{Queue: "q"})
		r.Header().Set("Authorization", "Bearer "+secret)
		_, err := w.Enqueue(ctx, r)
		return err
	}
	grpc := worker(h2c, connect.WithGRPC())
	for name, w := range map[string]workerpbconnect.WorkerServiceClient{
		"connect": worker(h2c), "HTTP/1.1 and JSON": worker(plain, connect.WithProtoJSON()), "gRPC": grpc, "gRPC-Web": worker(plain, connect.WithGRPCWeb()),
	} {
		if err := enqueue(w, key.APIKey); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := enqueue(w, "cv_ns_garbage"); connect.CodeOf(err) != connect.CodeUnauthenticated || rpc.FromError(err).Code != api.Unauthorized {
			t.Errorf("%s, without a key of anybody: %v", name, err)
		}
	}
	stream := func(secret string) *connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse] {
		s := grpc.StreamLifecycle(ctx)
		s.RequestHeader().Set("Authorization", "Bearer "+secret)
		return s
	}
	fetch := func(s *connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]) int {
		m := &workerpb.StreamLifecycleRequest{Queues: []string{"q"}, FetchCount: 10}
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
		out, err := s.Receive()
		if err != nil || out.Error != "" {
			t.Fatalf("%v, %v", out, err)
		}
		return len(out.Jobs)
	}
	mine, others := stream(key.APIKey), stream(otherKey.APIKey)
	if n := fetch(others); n != 0 {
		t.Errorf("another namespace's stream got %d jobs", n)
	}
	if n := fetch(mine); n != 4 {
		t.Errorf("the stream got %d jobs", n)
	}
	if err := c.cloud(t).RevokeNamespaceKey(ctx, id, key.ID, 0); err != nil {
		t.Fatal(err)
	}
	if out, err := mine.Receive(); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its key was revoked: %v, %v", out, err)
	}
	if err := others.CloseRequest(); err != nil {
		t.Error(err)
	}
}
