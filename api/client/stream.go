package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
)

const (
	// streamWindow is the number of frames of a stream that may wait for their responses. A server
	// accepts as many from one stream.
	streamWindow = 16
	// streamPing is the silence after which a stream pings its connection, and the time limit of the
	// ping.
	streamPing = 15 * time.Second
	// maxRedirects is the number of times that a frame follows a NOT_LEADER response.
	maxRedirects = 3
	// giveBackWait is the time that Close waits for the responses to abandoned frames, and then again for the
	// return of the jobs in these responses. giveBackLines is the number of jobs that are returned at one
	// time.
	giveBackWait  = 2 * time.Second
	giveBackLines = 8
	// clientName is the value of X-Corvo-Client-Name.
	clientName = "corvo-go"
)

// Frame is one message of a stream: acks, then enqueues, then a fetch. Each part is optional.
type Frame struct {
	Acks     []api.AckItem        // each succeeds or fails on its own
	Enqueues []api.EnqueueRequest // all or none
	Fetch    *api.FetchRequest    // its Timeout is ignored: a frame waits at most a tenth of a second
	Count    int                  // of jobs to fetch; 0 = 1
}

// FrameResult is the response to a Frame.
type FrameResult struct {
	Acked     int
	AckErrors []api.ItemError // without Details
	JobIDs    []string        // of the enqueues, in their order
	Jobs      []api.FetchedJob
	JobErrors []api.ItemError // jobs that cannot be decoded; the stream fails their attempts
}

// Stream is a connection for all the work of a worker. It connects with the first frame, and again with
// the next frame after a failure. It is safe for concurrent use: several frames may be under way, and the
// server answers them in the order in which they were sent. It needs HTTP/2 all the way to the server,
// also without TLS.
type Stream struct {
	client  *Client
	http    *http.Client
	credit  chan struct{}  // one element for each frame under way
	running sync.WaitGroup // of the goroutines that read, write and return jobs

	mu      sync.Mutex // guards the fields below and the order of frames; nothing blocks under it
	at      string     // base URL: the endpoint of the client, or of a leader
	conn    *streamConn
	retired []*streamConn // replaced connections with frames under way
	closed  bool
	next    uint64
}

var errClosed = errors.New("it is closed")

// Stream returns a stream. It sends nothing before its first frame.
func (c *Client) Stream() *Stream {
	return &Stream{client: c, http: streamHTTP(c.http), credit: make(chan struct{}, streamWindow), at: c.base}
}

// streamHTTP returns a copy of an HTTP client that uses only HTTP/2. A transport that is no *http.Transport
// stays as it is.
func streamHTTP(h *http.Client) *http.Client {
	own := *h
	own.Timeout = 0
	base, ok := h.Transport.(*http.Transport)
	if h.Transport == nil {
		base, ok = newTransport(), true
	}
	if !ok {
		return &own
	}
	t := base.Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP2(true)
	t.Protocols.SetUnencryptedHTTP2(true)
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: streamPing, PingTimeout: streamPing}
	own.Transport = t
	return &own
}

// Do sends a frame and waits for its response. If the error is itself an *api.Error, the result still has
// everything that the frame did. After any other error, also one that wraps an *api.Error, the outcome is
// unknown. A frame with only acks may be sent again, because the lease token of each ack detects a repeat.
// Enqueues should have unique keys.
//
// If ctx is cancelled, no fetched job is lost: Do returns a response that has come already, and gives the
// jobs of a later response back to their queues. If the deadline of ctx or the Client's timeout passes, the
// connection counts as broken and all its frames under way fail.
func (s *Stream) Do(ctx context.Context, f Frame) (FrameResult, error) {
	m, err := wireFrame(f)
	if err != nil {
		return FrameResult{}, err
	}
	if limit := s.client.timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for hops := 0; ; hops++ {
		out, err := s.exchange(ctx, m)
		if err != nil {
			return FrameResult{}, err
		}
		// The frame had no effect there, so it may be sent to another node.
		if out.Error == "NOT_LEADER" && out.LeaderAddr != "" && hops < maxRedirects {
			if err := s.redirect(out.LeaderAddr); err == nil {
				continue
			}
		}
		return s.take(out)
	}
}

// exchange sends a message and waits for its response.
func (s *Stream) exchange(ctx context.Context, m *workerpb.StreamLifecycleRequest) (*workerpb.StreamLifecycleResponse, error) {
	select {
	case s.credit <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, conn, err := s.send(m)
	if err != nil {
		<-s.credit
		return nil, err
	}
	select {
	case a := <-f.answer:
		return a.out, a.err
	case <-ctx.Done():
	}
	if a, answered := conn.leave(f); answered && a.err == nil {
		return a.out, nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		conn.abort(fmt.Errorf("no answer in time: %w", ctx.Err())) // no caller waits for its responses any more
	}
	return nil, context.Cause(ctx)
}

// send passes a message to the present connection, or to a new one.
func (s *Stream) send(m *workerpb.StreamLifecycleRequest) (*streamFrame, *streamConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, &broken{errClosed}
	}
	if s.conn != nil && s.conn.err() != nil {
		s.conn, s.at = nil, s.client.base // the leader may be gone
	}
	if s.conn == nil {
		s.conn = s.open()
	}
	s.next++
	m.RequestId = s.next
	f := &streamFrame{message: m, answer: make(chan streamAnswer, 1)}
	return f, s.conn, s.conn.expect(f)
}

// open opens a connection and starts its goroutines.
func (s *Stream) open() *streamConn {
	ctx, cancel := context.WithCancelCause(context.Background())
	service := workerpbconnect.NewWorkerServiceClient(s.http, s.at, connect.WithCodec(rpc.Codec{}))
	conn := &streamConn{stream: s, bidi: service.StreamLifecycle(ctx), ctx: ctx, cancel: cancel, more: make(chan struct{}, 1)}
	h := conn.bidi.RequestHeader()
	h.Set("X-Corvo-Client-Name", clientName)
	if version := moduleVersion(); version != "" {
		h.Set("X-Corvo-Client-Version", version)
	}
	if s.client.key != "" {
		h.Set("Authorization", s.client.bearer)
	}
	if s.client.namespace != "" {
		h.Set(api.NamespaceHeader, s.client.namespace)
	}
	s.running.Go(conn.read)
	s.running.Go(conn.write)
	return conn
}

// moduleVersion returns the version of this module in the program, or "".
var moduleVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == "github.com/corvo/corvo" {
			return m.Version
		}
	}
	return ""
})

// redirect makes further frames go to another node. The old connection answers the frames that were sent
// on it.
func (s *Stream) redirect(leader string) error {
	c, err := New(leader, "")
	if err != nil {
		return err
	}
	if strings.HasPrefix(s.client.base, "https:") && !strings.HasPrefix(c.base, "https:") {
		return fmt.Errorf("stream: %s is said to lead, which would have the key sent without TLS", leader)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == c.base {
		return nil
	}
	s.retired = slices.DeleteFunc(s.retired, func(conn *streamConn) bool { return conn.err() != nil })
	if s.conn != nil {
		s.conn.retire()
		s.retired = append(s.retired, s.conn)
	}
	s.at, s.conn = c.base, nil
	return nil
}

// Close closes the stream. Frames under way get an error. Close gives the jobs that these frames fetch back
// to their queues, and waits a few seconds at most for that.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	if s.conn != nil {
		s.retired = append(s.retired, s.conn)
	}
	for _, conn := range s.retired {
		conn.finish()
	}
	s.mu.Unlock()
	s.running.Wait()
	s.http.CloseIdleConnections()
}

// giveBack returns jobs to their queues without counting an attempt. If the server cannot be reached, the
// leases expire.
func (s *Stream) giveBack(jobs []api.FetchedJob) {
	s.fail(jobs, func(int) string { return api.WorkerShutdown })
}

// take converts a response. It fails the attempts of jobs that cannot be decoded, because the next attempt
// could not decode them either. It does so in the background, while the caller works on the other jobs,
// unless the stream is closed.
func (s *Stream) take(m *workerpb.StreamLifecycleResponse) (FrameResult, error) {
	out, unread, err := readFrame(m)
	if len(unread) > 0 {
		errs := slices.Clone(out.JobErrors)
		tell := func() { s.fail(unread, func(i int) string { return errs[i].Error }) }
		s.mu.Lock()
		closed := s.closed
		if !closed { // Close waits for it
			s.running.Go(tell)
		}
		s.mu.Unlock()
		if closed {
			tell()
		}
	}
	return out, err
}

// fail ends the attempts of jobs. why returns the error of each by its index.
func (s *Stream) fail(jobs []api.FetchedJob, why func(i int) string) {
	if len(jobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackWait)
	defer cancel()
	var lines sync.WaitGroup
	for line := range min(giveBackLines, len(jobs)) {
		lines.Go(func() {
			for i := line; i < len(jobs); i += giveBackLines {
				_, _ = s.client.Fail(ctx, jobs[i].JobID, api.FailRequest{LeaseToken: jobs[i].LeaseToken, Error: why(i)})
			}
		})
	}
	lines.Wait()
}
