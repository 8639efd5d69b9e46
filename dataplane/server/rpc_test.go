package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
	"github.com/corvo/corvo/dataplane/server"
)

// A job's lifecycle in each protocol, encoding and version of HTTP.
func TestRPCInEveryProtocol(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	secure := httptest.NewUnstartedServer(n.server)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(plain.CloseIdleConnections)
	for name, c := range map[string]workerpbconnect.WorkerServiceClient{
		"connect":                      rpcClient(t, h2c(t), url, n.admin),
		"connect, HTTP/1.1":            rpcClient(t, plain, url, n.admin),
		"connect, JSON, HTTP/1.1":      rpcClient(t, plain, url, n.admin, connect.WithProtoJSON()),
		"connect, TLS":                 rpcClient(t, secure.Client(), secure.URL, n.admin),
		"gRPC":                         rpcClient(t, h2c(t), url, n.admin, connect.WithGRPC()),
		"gRPC, JSON":                   rpcClient(t, h2c(t), url, n.admin, connect.WithGRPC(), connect.WithProtoJSON()),
		"gRPC, TLS":                    rpcClient(t, secure.Client(), secure.URL, n.admin, connect.WithGRPC()),
		"gRPC-Web":                     rpcClient(t, h2c(t), url, n.admin, connect.WithGRPCWeb()),
		"gRPC-Web, HTTP/1.1":           rpcClient(t, plain, url, n.admin, connect.WithGRPCWeb()),
		"connect, accepts compression": rpcClient(t, h2c(t), url, n.admin, connect.WithAcceptCompression("gzip", nil, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			queue := strings.NewReplacer(" ", "", ",", "", "/", "").Replace(name)
			rpcLife(t, c, queue)
		})
	}
}

// rpcLife runs a job's lifecycle.
func rpcLife(t *testing.T, c workerpbconnect.WorkerServiceClient, queue string) {
	ctx := t.Context()
	info, err := c.GetServerInfo(ctx, rpcOf(&workerpb.GetServerInfoRequest{}))
	if err != nil || info.Msg.ServerVersion != "test" || info.Msg.ApiVersion != "v1" {
		t.Fatalf("%v, %v", info, err)
	}
	made, err := c.Enqueue(ctx, rpcOf(&workerpb.EnqueueRequest{
		Queue: queue, PayloadJson: `{"n":12345678901234567890}`,
		OptionsJson: `{"tags":{"tenant":"acme"},"unique_key":"k","headers":{"h":"v"},"max_retries":2,"retry_base_delay":"1h","nobody":"knows"}`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the enqueue's status", made.Msg.Status, "pending")
	equal(t, "the enqueue's unique_existing", made.Msg.UniqueExisting, false)
	present(t, "the enqueue's index", made.Header().Get(server.IndexHeader))
	again, err := c.Enqueue(ctx, rpcOf(&workerpb.EnqueueRequest{Queue: queue, OptionsJson: `{"unique_key":"k"}`}))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the duplicate's job", again.Msg.JobId, made.Msg.JobId)
	equal(t, "the duplicate's unique_existing", again.Msg.UniqueExisting, true)
	equal(t, "the duplicate's status", again.Msg.Status, "duplicate")
	got, err := c.Fetch(ctx, rpcOf(&workerpb.FetchRequest{Queues: []string{queue}, WorkerId: "w", LeaseDuration: 60}))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the length of the lease token", len(got.Msg.LeaseToken), 32)
	equal(t, "the fetched job", got.Msg, &workerpb.FetchResponse{
		Found: true, JobId: made.Msg.JobId, Queue: queue, PayloadJson: `{"n":12345678901234567890}`, TagsJson: `{"tenant":"acme"}`,
		HeadersJson: `{"h":"v"}`, Attempt: 1, MaxRetries: 2, LeaseDuration: 60, LeaseToken: got.Msg.LeaseToken,
	})
	beat, err := c.Heartbeat(ctx, rpcOf(&workerpb.HeartbeatRequest{Jobs: map[string]*workerpb.HeartbeatJob{
		got.Msg.JobId: {LeaseToken: got.Msg.LeaseToken, StreamDelta: "so far", Usage: &workerpb.UsageReport{InputTokens: 3, CostUsd: 0.1}},
	}}))
	if err != nil || beat.Msg.Jobs[got.Msg.JobId].GetStatus() != "ok" {
		t.Errorf("%v, %v", beat, err)
	}
	_, err = c.Ack(ctx, rpcOf(&workerpb.AckRequest{JobId: got.Msg.JobId, LeaseToken: strings.Repeat("0", 32)}))
	if e := rpc.FromError(err); e == nil || e.Code != api.LeaseLost || connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("an ack with another's token: %v", err)
	}
	failed, err := c.Fail(ctx, rpcOf(&workerpb.FailRequest{JobId: got.Msg.JobId, LeaseToken: got.Msg.LeaseToken, Error: "no"}))
	if err != nil {
		t.Fatal(err)
	}
	present(t, "next_attempt_at", failed.Msg.NextAttemptAt)
	equal(t, "the fail's answer", failed.Msg, &workerpb.FailResponse{
		Status: "retrying", NextAttemptAt: failed.Msg.NextAttemptAt, AttemptsRemaining: 1, Attempt: 1,
	})
	for range 2 {
		if _, err := c.Enqueue(ctx, rpcOf(&workerpb.EnqueueRequest{Queue: queue})); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := c.FetchBatch(ctx, rpcOf(&workerpb.FetchBatchRequest{Queues: []string{queue}, Count: 5}))
	if err != nil || len(batch.Msg.Jobs) != 2 || batch.Msg.Jobs[0].PayloadJson != `{}` {
		t.Fatalf("%v, %v", batch, err)
	}
	acked, err := c.AckBatch(ctx, rpcOf(&workerpb.AckBatchRequest{Items: []*workerpb.AckBatchItem{
		{JobId: batch.Msg.Jobs[0].JobId, LeaseToken: batch.Msg.Jobs[0].LeaseToken, ResultJson: `{"ok":true}`},
		{JobId: "nonsense"}, {JobId: batch.Msg.Jobs[1].JobId, ResultJson: `{`},
	}}))
	if err != nil || acked.Msg.Acked != 1 || len(acked.Msg.Errors) != 2 {
		t.Errorf("%v, %v", acked, err)
	}
	none, err := c.Ack(ctx, rpcOf(&workerpb.AckRequest{JobId: batch.Msg.Jobs[1].JobId}))
	if err != nil {
		t.Errorf("%v, %v", none, err)
	}
}

// The client of grpc-go, the library that most workers use, works.
func TestGRPCClient(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	secure := httptest.NewUnstartedServer(n.server)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	for target, trust := range map[string]credentials.TransportCredentials{
		strings.TrimPrefix(n.rpcFront(), "http://"): insecure.NewCredentials(),
		strings.TrimPrefix(secure.URL, "https://"):  credentials.NewTLS(&tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}),
	} {
		conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(trust))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+n.admin)
		call := func(name string, in, out any) error {
			return conn.Invoke(ctx, rpc.Prefix+name, in, out)
		}
		var made workerpb.EnqueueResponse
		if err := call("Enqueue", &workerpb.EnqueueRequest{Queue: "g"}, &made); err != nil || made.JobId == "" {
			t.Fatalf("%v, %v", &made, err)
		}
		err = call("Enqueue", &workerpb.EnqueueRequest{Queue: "no queue"}, &made)
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || reasonOf(s) != "VALIDATION_ERROR" {
			t.Errorf("%v", err)
		}
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, rpc.Prefix+"StreamLifecycle")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil { // before any frame
			t.Fatal(err)
		}
		var out workerpb.StreamLifecycleResponse
		if err := errors.Join(stream.SendMsg(&workerpb.StreamLifecycleRequest{RequestId: 4, Queues: []string{"g"}, FetchCount: 2}), stream.RecvMsg(&out)); err != nil || out.RequestId != 4 || len(out.Jobs) != 1 {
			t.Fatalf("%v, %v", &out, err)
		}
		acks := []*workerpb.AckBatchItem{{JobId: out.Jobs[0].JobId, LeaseToken: out.Jobs[0].LeaseToken}}
		if err := errors.Join(stream.SendMsg(&workerpb.StreamLifecycleRequest{RequestId: 5, Acks: acks}), stream.CloseSend(), stream.RecvMsg(&out)); err != nil || out.Acked != 1 || out.RequestId != 5 {
			t.Fatalf("%v, %v", &out, err)
		}
	}
}

func reasonOf(s *status.Status) string {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.Reason
		}
	}
	return ""
}
