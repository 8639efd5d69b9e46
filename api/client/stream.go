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
	// streamCredit is how many frames of a stream may wait for their answers, which is
	// as many as a server has in hand of one.
	streamCredit = 16
	// streamPing is how long a stream may be silent before its connection is tried, and
	// how long that may take.
	streamPing = 15 * time.Second
	// mostLeaders is how often a frame follows a server's word of who leads.
	mostLeaders = 3
	// giveBackWait is how long jobs may take to come that nobody waits for any longer, where
	// the stream is closed, and to go back; giveBackLines is how many do at once.
	giveBackWait  = 2 * time.Second
	giveBackLines = 8
	// clientName is what a stream says of who it is.
	clientName = "corvo-go"
)

// Frame is what one message of a stream asks for: acks, then enqueues, then a fetch. What
// is left out is not asked for.
type Frame struct {
	Acks     []api.AckItem        // each on its own
	Enqueues []api.EnqueueRequest // all or none
	Fetch    *api.FetchRequest    // its Timeout does not count: a frame waits a tenth of a second at most
	Count    int                  // of jobs to fetch; 0 is 1
}

// FrameResult is the answer to a Frame.
type FrameResult struct {
	Acked     int
	AckErrors []api.ItemError
	JobIDs    []string // of the enqueues
	Jobs      []api.FetchedJob
	JobErrors []api.ItemError // jobs that cannot be read here; the server is told that they failed
}

// Stream is a connection that a worker does all of its work over. It is opened with the
// first frame, and again with the next one when it broke. It is safe for any number of
// goroutines: frames are answered in the order in which they were sent, and many may be
// under way. It needs HTTP/2, also without TLS, all the way to the server.
type Stream struct {
	client  *Client
	http    *http.Client
	credit  chan struct{}  // as many as frames are under way
	running sync.WaitGroup // of what reads, writes and gives back

	mu     sync.Mutex // guards what follows, and keeps frames in order; nothing is waited for with it
	at     string     // base URL: the client's, or that of a leader
	conn   *streamConn
	left   []*streamConn // whom the stream has turned from, with frames under way
	closed bool
	next   uint64
}

var errClosed = errors.New("it is closed")

// Stream makes a stream; nothing is sent before its first frame.
func (c *Client) Stream() *Stream {
	return &Stream{client: c, http: streamHTTP(c.http), credit: make(chan struct{}, streamCredit), at: c.base}
}

// streamHTTP is a client's HTTP with HTTP/2 only. A transport that is not net/http's own
// is taken as it is.
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

// Do sends a frame and waits for its answer. An error of the server comes with what was
// done all the same; after any other nobody knows. A frame of acks alone may be sent again,
// as each is fenced by its lease token; enqueues should have unique keys.
//
// Jobs that a frame fetches are not lost where ctx is cancelled: an answer that has come
// is returned all the same, and the jobs of one that comes later go back to their queues.
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
		// It did nothing there, so it may be sent to another.
		if out.Error == "NOT_LEADER" && out.LeaderAddr != "" && hops < mostLeaders {
			if err := s.turnTo(out.LeaderAddr); err == nil {
				continue
			}
		}
		return s.take(out)
	}
}

// exchange sends a message and waits for its answer.
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
		conn.breakOff(fmt.Errorf("no answer in time: %w", ctx.Err())) // whatever it waits for, nobody does any longer
	}
	return nil, context.Cause(ctx)
}

// send hands a message to the connection there is, or to a new one.
func (s *Stream) send(m *workerpb.StreamLifecycleRequest) (*streamFrame, *streamConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, &broken{errClosed}
	}
	if s.conn != nil && s.conn.err() != nil {
		s.conn, s.at = nil, s.client.base // whoever led may be gone
	}
	if s.conn == nil {
		s.conn = s.open()
	}
	s.next++
	m.RequestId = s.next
	f := &streamFrame{message: m, answer: make(chan streamAnswer, 1)}
	return f, s.conn, s.conn.expect(f)
}

// open begins a connection, and the reading and writing of it.
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

// moduleVersion is the version of this module in the program; empty where it does not say.
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

// turnTo has what follows go to another node. Frames under way are answered by the
// connection that they went to.
func (s *Stream) turnTo(leader string) error {
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
	s.left = slices.DeleteFunc(s.left, func(conn *streamConn) bool { return conn.err() != nil })
	if s.conn != nil {
		s.conn.retire()
		s.left = append(s.left, s.conn)
	}
	s.at, s.conn = c.base, nil
	return nil
}

// Close ends the stream. Frames under way are answered with an error. What they have
// fetched goes back, for which it waits some seconds at most.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	if s.conn != nil {
		s.left = append(s.left, s.conn)
	}
	for _, conn := range s.left {
		conn.finish()
	}
	s.mu.Unlock()
	s.running.Wait()
	s.http.CloseIdleConnections()
}

// giveBack returns jobs that nobody here will do to their queues; no attempt is counted.
// What cannot be told the server finds out when the leases end.
func (s *Stream) giveBack(jobs []api.FetchedJob) {
	s.fail(jobs, func(int) string { return api.WorkerShutdown })
}

// take is an answer as it came. A job that cannot be read would be as unreadable the next
// time: its attempt has failed, which the server is told while the others are worked on.
func (s *Stream) take(m *workerpb.StreamLifecycleResponse) (FrameResult, error) {
	out, unread, err := readFrame(m)
	if len(unread) > 0 {
		errs := slices.Clone(out.JobErrors)
		tell := func() { s.fail(unread, func(i int) string { return errs[i].Error }) }
		s.mu.Lock()
		closed := s.closed
		if !closed { // so Close waits for it
			s.running.Go(tell)
		}
		s.mu.Unlock()
		if closed {
			tell()
		}
	}
	return out, err
}

// fail tells the server that jobs will not be done, and why.
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
