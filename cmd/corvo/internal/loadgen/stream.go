package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

// streamConn speaks StreamLifecycle: a stream and a connection for each client, as
// workers of several processes have them, and one frame under way on it.
type streamConn struct {
	rpc    workerpbconnect.WorkerServiceClient
	web    *http.Client
	key    string
	worker string

	stream *connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]
	cancel context.CancelFunc
	sent   uint64
}

// dialer is how the clients of a run get their connections.
func (r *run) dialer() (func(worker string) conn, error) {
	if r.Transport != Stream {
		return func(worker string) conn {
			return &httpConn{api: r.api, worker: worker, single: r.Transport == HTTP}
		}, nil
	}
	u, err := url.Parse(r.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	return func(worker string) conn {
		web := streamClient(u.Scheme == "https")
		return &streamConn{
			rpc: workerpbconnect.NewWorkerServiceClient(web, strings.TrimRight(r.Endpoint, "/")),
			web: web, key: r.Key, worker: worker,
		}
	}, nil
}

// streamClient speaks HTTP/2, without TLS where the endpoint has none.
func streamClient(secure bool) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP2(secure)
	t.Protocols.SetUnencryptedHTTP2(!secure)
	t.DisableCompression = true
	return &http.Client{Transport: t}
}

func (s *streamConn) close() {
	if s.stream != nil {
		// The run is over: what the server says to it changes nothing.
		_ = s.stream.CloseRequest()
		_ = s.stream.CloseResponse()
		s.cancel()
		s.stream = nil
	}
	s.web.CloseIdleConnections()
}

func (s *streamConn) do(ctx context.Context, f frame) (answer, error) {
	if s.stream == nil {
		ctx, cancel := context.WithCancel(ctx)
		s.stream, s.cancel = s.rpc.StreamLifecycle(ctx), cancel
		if s.key != "" {
			s.stream.RequestHeader().Set("Authorization", "Bearer "+s.key)
		}
	}
	out, err := s.exchange(f)
	if err != nil {
		s.cancel()
		s.stream = nil // the next frame goes on another
		return answer{}, err
	}
	if out.GetError() != "" {
		return answer{}, frameError(out)
	}
	a := answer{enqueued: len(out.GetEnqueuedJobIds()), acked: int(out.GetAcked())}
	for _, e := range out.GetAckErrors() {
		a.refused = append(a.refused, &api.Error{Code: api.Code(e.GetCode()), Message: e.GetError()})
	}
	for _, j := range out.GetJobs() {
		a.leased = append(a.leased, leaseOf(j.GetJobId(), j.GetLeaseToken(), []byte(j.GetPayloadJson())))
	}
	return a, nil
}

// exchange sends a frame and receives its answer.
func (s *streamConn) exchange(f frame) (*workerpb.StreamLifecycleResponse, error) {
	s.sent++
	req := &workerpb.StreamLifecycleRequest{RequestId: s.sent, WorkerId: s.worker, FetchCount: int32(f.fetch)}
	if f.fetch > 0 {
		req.Queues = []string{f.queue}
	}
	for _, payload := range f.enqueue {
		req.Enqueues = append(req.Enqueues, &workerpb.EnqueueRequest{Queue: f.queue, PayloadJson: string(payload)})
	}
	for _, l := range f.acks {
		req.Acks = append(req.Acks, &workerpb.AckBatchItem{JobId: l.id, LeaseToken: l.token, ResultJson: string(ackResult)})
	}
	if err := s.stream.Send(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	out, err := s.stream.Receive() // where the stream has ended, this says why
	if err != nil {
		return nil, err
	}
	if out.GetRequestId() != s.sent {
		return nil, fmt.Errorf("the answer to frame %d says that it is to frame %d", s.sent, out.GetRequestId())
	}
	return out, nil
}
