package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// post calls a procedure with JSON, as curl does. A stream's message is in an envelope.
func (n *node) post(url, procedure, key, body string) (status int, answer string, header http.Header) {
	n.t.Helper()
	kind, message := "application/json", []byte(body)
	if strings.HasSuffix(procedure, "Subscribe") || strings.HasSuffix(procedure, "StreamLifecycle") {
		kind = "application/connect+json"
		message = append([]byte{0, 0, 0, 0, byte(len(body))}, body...)
	}
	r, err := http.NewRequestWithContext(context.Background(), "POST", url+procedure, bytes.NewReader(message))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	res, err := h2c(n.t).Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, string(all), res.Header
}

// Each procedure accepts the roles of its permission and no others.
func TestRPCAuthorisation(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	expired := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}, ExpiresAt: time.Now().Add(-time.Second)})
	revoked := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Admin}})
	n.revoke(revoked)
	readonly := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.ReadOnly}})
	before := n.dump()
	for _, p := range n.server.Procedures() {
		if strings.HasSuffix(p.Path, "{procedure}") {
			continue // unknown procedures
		}
		if p.Permission == serve.Open {
			if status, body, _ := n.post(url, p.Path, "", "{}"); status != 200 {
				t.Errorf("%s is open and answers %d %s", p.Path, status, body)
			}
			continue
		}
		for what, key := range map[string]string{"no key": "", "garbage": "cv_ns_garbage", "an expired one": expired, "a revoked one": revoked, "a mistyped one": n.admin + "!"} {
			if _, body, header := n.post(url, p.Path, key, "{}"); !strings.Contains(body, `"unauthenticated"`) || header.Get(rpc.CodeHeader) != "UNAUTHORIZED" {
				t.Errorf("%s with %s: %s", p.Path, what, body)
			}
		}
		if !tenancy.ReadOnly.Grants(p.Permission) {
			if _, body, header := n.post(url, p.Path, readonly, "{}"); !strings.Contains(body, `"permission_denied"`) || header.Get(rpc.CodeHeader) != "FORBIDDEN" {
				t.Errorf("%s as readonly: %s", p.Path, body)
			}
		}
	}
	n.same(before)
}

// A key's scope applies to every call, and other jobs seem not to exist.
func TestRPCScopes(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	theirs := n.one(n.client(n.admin), "theirs")
	mine := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}, QueueScope: []tenancy.Glob{"mine.*"}})
	for procedure, c := range map[string]struct{ body, has string }{
		"Enqueue":    {`{"queue":"theirs"}`, "FORBIDDEN"},
		"Fetch":      {`{"queues":["theirs"]}`, "FORBIDDEN"},
		"FetchBatch": {`{"queues":["mine.a","theirs"]}`, "FORBIDDEN"},
		"Ack":        {fmt.Sprintf(`{"jobId":%q}`, theirs.JobID), "NOT_FOUND"},
		"AckBatch":   {fmt.Sprintf(`{"items":[{"job_id":%q}]}`, theirs.JobID), "NOT_FOUND"},
		"Fail":       {fmt.Sprintf(`{"jobId":%q}`, theirs.JobID), "NOT_FOUND"},
		"Heartbeat":  {fmt.Sprintf(`{"jobs":{%q:{}}}`, theirs.JobID), `"cancel"`},
		"Subscribe":  {`{"queues":["theirs"]}`, "permission_denied"},
	} {
		_, body, header := n.post(url, rpc.Prefix+procedure, mine, c.body)
		if !strings.Contains(body+header.Get(rpc.CodeHeader), c.has) {
			t.Errorf("%s: %s %v", procedure, body, header)
		}
	}
	// Both names of a field, and an unknown field.
	if status, body, _ := n.post(url, rpc.Prefix+"Enqueue", mine, `{"queue":"mine.a","payload_json":"[1]","later":true}`); status != 200 || !strings.Contains(body, `"jobId"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ := n.post(url, rpc.Prefix+"Fetch", mine, `{"queues":["mine.a"]}`); status != 200 || !strings.Contains(body, `"payloadJson":"[1]"`) {
		t.Errorf("%d %s", status, body)
	}
}

// The repeat of a call with its key gets the first answer, in any encoding; another call with the key is
// refused.
func TestRPCIdempotency(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	enqueue := func(queue string, options ...connect.ClientOption) (*connect.Response[workerpb.EnqueueResponse], error) {
		r := rpcOf(&workerpb.EnqueueRequest{Queue: queue})
		r.Header().Set(server.IdempotencyHeader, "once")
		return rpcClient(t, h2c(t), url, n.admin, options...).Enqueue(t.Context(), r)
	}
	first, err := enqueue("q")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := enqueue("q", connect.WithGRPC(), connect.WithProtoJSON()); err != nil || second.Msg.JobId != first.Msg.JobId {
		t.Errorf("%v, %v", second, err)
	}
	if other, err := enqueue("other"); rpc.FromError(err).Code != api.IdempotencyMismatch {
		t.Errorf("%v, %v", other, err)
	}
	s := rpcClient(t, h2c(t), url, n.admin).StreamLifecycle(t.Context())
	s.RequestHeader().Set(server.IdempotencyHeader, "once")
	if err := s.Send(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(); rpc.FromError(err).Code != api.ValidationError {
		t.Errorf("a stream with a key: %v", err)
	}
}

// A fetch waits and is answered before its caller's deadline. It ends when its key is revoked.
func TestRPCFetchWaits(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	c := rpcClient(t, h2c(t), url, key, connect.WithGRPC())
	// The server answers half a second early. A busy machine may need longer, so a late answer is asked for again.
	eventually(t, "a fetch is answered before its deadline", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		out, err := c.Fetch(ctx, rpcOf(&workerpb.FetchRequest{Queues: []string{"q"}}))
		if err == nil && out.Msg.Found || err != nil && connect.CodeOf(err) != connect.CodeDeadlineExceeded {
			t.Fatalf("%v, %v", out, err)
		}
		return err == nil
	})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Fetch(context.Background(), rpcOf(&workerpb.FetchRequest{Queues: []string{"q"}}))
		ended <- err
	}()
	n.parked(1)
	n.revoke(key)
	if err := <-ended; connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("a fetch whose key is revoked: %v", err)
	}
}

// Answers stay below the clients' limit, and jobs that do not fit are given back uncounted.
func TestRPCAnswersFit(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	c := rpcClient(t, h2c(t), url, n.admin, connect.WithReadMaxBytes(4<<20))
	payload, err := json.Marshal(strings.Repeat("x", 1<<20-2))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := c.Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{Queue: "q", PayloadJson: string(payload)})); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{3, 2} {
		out, err := c.FetchBatch(t.Context(), rpcOf(&workerpb.FetchBatchRequest{Queues: []string{"q"}, Count: 10}))
		if err != nil || len(out.Msg.Jobs) != want {
			t.Fatalf("%d jobs, want %d: %v", len(out.Msg.GetJobs()), want, err)
		}
		for _, j := range out.Msg.Jobs {
			if j.Attempt != 1 {
				t.Errorf("attempt %d", j.Attempt)
			}
		}
	}
	_, err = c.Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{Queue: "q", PayloadJson: strings.Repeat(" ", int(n.server.BodyEnqueue())) + "1"}))
	if e := rpc.FromError(err); e == nil || e.Code != api.PayloadTooLarge {
		t.Errorf("a message that is too large: %v", err)
	}
	eventually(t, "nothing is in hand", func() bool { return n.server.BodyBytes() == 0 })
}

// An event stream begins at the requested position, has a cursor, and ends with its key.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	url := n.rpcFront()
	key := n.key(tenancy.Key{Roles: []tenancy.Role{tenancy.Worker}})
	c := rpcClient(t, h2c(t), url, key)
	for range 2 {
		if _, err := c.Enqueue(t.Context(), rpcOf(&workerpb.EnqueueRequest{Queue: "q"})); err != nil {
			t.Fatal(err)
		}
	}
	listen := func(m *workerpb.SubscribeRequest) *connect.ServerStreamForClient[workerpb.SubscribeResponse] {
		s, err := c.Subscribe(t.Context(), rpcOf(m))
		if err != nil || !s.Receive() {
			t.Fatalf("%v, %v", err, s.Err())
		}
		return s
	}
	s := listen(&workerpb.SubscribeRequest{Cursor: "0", Types: []string{"enqueued"}})
	first := s.Msg()
	equal(t, "type", first.Type, "enqueued")
	equal(t, "queue", first.Queue, "q")
	present(t, "job_id", first.JobId)
	present(t, "at_ns", first.AtNs)
	present(t, "seq", first.Seq)
	next := listen(&workerpb.SubscribeRequest{LastEventId: first.Seq, Types: []string{"enqueued"}}).Msg()
	same := listen(&workerpb.SubscribeRequest{Cursor: first.Cursor, Queues: []string{"q"}, Types: []string{"enqueued"}}).Msg()
	if next.Seq <= first.Seq || next.Seq != same.Seq {
		t.Errorf("behind %d come %d and %d", first.Seq, next.Seq, same.Seq)
	}
	if !s.Receive() || s.Msg().Seq != next.Seq {
		t.Errorf("%v, %v", s.Msg(), s.Err())
	}
	n.revoke(key)
	if s.Receive() || connect.CodeOf(s.Err()) != connect.CodeUnauthenticated {
		t.Errorf("after its key was revoked: %v, %v", s.Msg(), s.Err())
	}
}
