package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
	"github.com/corvo/corvo/billing/money"
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
}

// Stream is a connection that a worker does all of its work over. It is opened with the
// first frame, and again with the next one when it broke. It is safe for any number of
// goroutines: frames are answered in the order in which they were sent, and many may be
// under way. It needs HTTP/2, also without TLS, all the way to the server.
type Stream struct {
	client *Client
	http   *http.Client
	credit chan struct{}

	mu     sync.Mutex // guards what follows, and keeps frames in order
	at     string     // base URL: the client's, or that of a leader
	conn   *streamConn
	closed bool
	next   uint64
}

// streamConn is one connection of a stream.
type streamConn struct {
	bidi   *connect.BidiStreamForClient[workerpb.StreamLifecycleRequest, workerpb.StreamLifecycleResponse]
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	waiting []waitingFrame // in the order they were sent
	retired bool           // no frame more will be sent
	broken  error
}

type waitingFrame struct {
	id     uint64
	answer chan streamAnswer
}

type streamAnswer struct {
	out *workerpb.StreamLifecycleResponse
	err error
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
func (s *Stream) Do(ctx context.Context, f Frame) (FrameResult, error) {
	m, err := wireFrame(f)
	if err != nil {
		return FrameResult{}, err
	}
	select {
	case s.credit <- struct{}{}:
		defer func() { <-s.credit }()
	case <-ctx.Done():
		return FrameResult{}, context.Cause(ctx)
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
		return readFrame(out)
	}
}

// exchange sends a message and waits for its answer.
func (s *Stream) exchange(ctx context.Context, m *workerpb.StreamLifecycleRequest) (*workerpb.StreamLifecycleResponse, error) {
	answer, conn, err := s.send(m)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a.out, a.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			conn.breakOff(fmt.Errorf("no answer in time: %w", ctx.Err())) // whatever it waits for, nobody does any longer
		}
		return nil, context.Cause(ctx)
	}
}

// send writes a message to the connection there is, or to a new one.
func (s *Stream) send(m *workerpb.StreamLifecycleRequest) (chan streamAnswer, *streamConn, error) {
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
	w := waitingFrame{s.next, make(chan streamAnswer, 1)}
	conn := s.conn
	if err := conn.expect(w); err != nil {
		return nil, nil, err
	}
	if err := conn.bidi.Send(m); err != nil {
		if errors.Is(err, io.EOF) { // why is told to the reader
			return w.answer, conn, nil
		}
		conn.breakOff(err)
	}
	return w.answer, conn, nil
}

// open begins a connection and reads its answers.
func (s *Stream) open() *streamConn {
	ctx, cancel := context.WithCancelCause(context.Background())
	service := workerpbconnect.NewWorkerServiceClient(s.http, s.at)
	conn := &streamConn{bidi: service.StreamLifecycle(ctx), cancel: cancel}
	h := conn.bidi.RequestHeader()
	if s.client.key != "" {
		h.Set("Authorization", "Bearer "+s.client.key)
	}
	if s.client.namespace != "" {
		h.Set(api.NamespaceHeader, s.client.namespace)
	}
	go conn.read()
	return conn
}

// read hands answers to those who wait for them.
func (c *streamConn) read() {
	for {
		out, err := c.bidi.Receive()
		if err != nil {
			c.breakOff(streamError(err))
			_ = c.bidi.CloseRequest()
			_ = c.bidi.CloseResponse()
			return
		}
		c.mu.Lock()
		if len(c.waiting) == 0 || c.waiting[0].id != out.RequestId {
			c.mu.Unlock()
			c.breakOff(fmt.Errorf("an answer to frame %d came out of turn", out.RequestId))
			continue // the next Receive ends it
		}
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		last := c.retired && len(c.waiting) == 0
		c.mu.Unlock()
		w.answer <- streamAnswer{out: out}
		if last {
			c.breakOff(errClosed)
		}
	}
}

// broken is why a connection ended, and with it the frames under way.
type broken struct{ why error }

func (b *broken) Error() string { return "stream: " + b.why.Error() }

// Unwrap is what the server said, where it did.
func (b *broken) Unwrap() error { return b.why }

// streamError is the error that ended a stream, as an *api.Error where the server said it.
func streamError(err error) error {
	if said := rpc.FromError(err); said != nil && connect.IsWireError(err) {
		return said
	}
	return err
}

// expect notes that a frame waits for an answer.
func (c *streamConn) expect(w waitingFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.waiting = append(c.waiting, w)
	}
	return c.broken
}

func (c *streamConn) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// breakOff ends the connection: those who wait are told why.
func (c *streamConn) breakOff(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return
	}
	why = &broken{why}
	c.broken = why
	c.cancel(why)
	for _, w := range c.waiting {
		w.answer <- streamAnswer{err: why}
	}
	c.waiting = nil
}

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
	if s.conn != nil {
		s.conn.retire()
	}
	s.at, s.conn = c.base, nil
	return nil
}

// retire ends the connection when nobody waits for it any longer.
func (c *streamConn) retire() {
	c.mu.Lock()
	c.retired = true
	idle := len(c.waiting) == 0
	c.mu.Unlock()
	if idle {
		c.breakOff(errClosed)
	}
}

// Close ends the stream. Frames under way are answered with an error.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.conn != nil {
		s.conn.breakOff(errClosed)
	}
	s.http.CloseIdleConnections()
}

// wireFrame is a frame as it is sent.
func wireFrame(f Frame) (*workerpb.StreamLifecycleRequest, error) {
	m := &workerpb.StreamLifecycleRequest{}
	if f.Fetch != nil {
		m.Queues, m.WorkerId, m.Hostname = f.Fetch.Queues, f.Fetch.WorkerID, f.Fetch.Hostname
		m.LeaseDuration, m.FetchCount = int32(f.Fetch.LeaseDuration), int32(max(f.Count, 1))
	}
	for i := range f.Acks {
		item, err := wireAck(&f.Acks[i])
		if err != nil {
			return nil, fmt.Errorf("stream: ack of job %s: %w", f.Acks[i].JobID, err)
		}
		m.Acks = append(m.Acks, item)
	}
	for i := range f.Enqueues {
		req := f.Enqueues[i]
		one := &workerpb.EnqueueRequest{Queue: req.Queue, PayloadJson: string(req.Payload)}
		req.Queue, req.Payload = "", nil
		options, err := json.Marshal(req)
		if err != nil {
			return nil, fmt.Errorf("stream: enqueues[%d]: %w", i, err)
		}
		// The queue is a field of its own, and may not be said twice.
		if text := strings.TrimPrefix(string(options), `{"queue":""`); text != "}" {
			one.OptionsJson = "{" + strings.TrimPrefix(text, ",")
		}
		m.Enqueues = append(m.Enqueues, one)
	}
	return m, nil
}

func wireAck(a *api.AckItem) (*workerpb.AckBatchItem, error) {
	out := &workerpb.AckBatchItem{
		JobId: a.JobID, ResultJson: string(a.Result), LeaseToken: a.LeaseToken, WorkerId: a.WorkerID, StepStatus: a.StepStatus,
		CheckpointJson: string(a.Checkpoint), AgentStatus: a.AgentStatus, HoldReason: a.HoldReason, TraceJson: string(a.Trace),
	}
	if len(a.ToolCalls) > 0 {
		calls, err := json.Marshal(a.ToolCalls)
		if err != nil {
			return nil, err
		}
		out.ToolCallsJson = string(calls)
	}
	if u := a.Usage; u != nil {
		out.Usage = &workerpb.UsageReport{
			InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Model: u.Model, Provider: u.Provider,
			CacheCreationTokens: u.CacheCreationTokens, CacheReadTokens: u.CacheReadTokens,
		}
		if u.CostUSD != nil {
			out.Usage.CostUsdExact = u.CostUSD.String()
		}
	}
	return out, nil
}

// readFrame is an answer as it came.
func readFrame(m *workerpb.StreamLifecycleResponse) (FrameResult, error) {
	out := FrameResult{Acked: int(m.Acked), JobIDs: m.EnqueuedJobIds}
	for _, e := range m.AckErrors {
		out.AckErrors = append(out.AckErrors, api.ItemError{JobID: e.JobId, Code: api.Code(e.Code), Error: e.Error})
	}
	for _, j := range m.Jobs {
		one, err := fetchedJob(j)
		if err != nil {
			return out, fmt.Errorf("stream: job %s: %w", j.JobId, err)
		}
		out.Jobs = append(out.Jobs, one)
	}
	if m.Error == "" {
		return out, nil
	}
	e, ok := errorOf(m.Error)
	if !ok {
		e = &api.Error{Code: api.LeaderUnavailable, Message: m.Error} // NOT_LEADER, of whom nobody knows
	}
	e.RetryAfter = time.Duration(m.RetryAfterMs) * time.Millisecond
	return out, e
}

// errorOf reads an error that is written as its code and its message.
func errorOf(text string) (*api.Error, bool) {
	code, message, ok := strings.Cut(text, ": ")
	if !ok || strings.ToUpper(code) != code || strings.Contains(code, " ") {
		return nil, false
	}
	return &api.Error{Code: api.Code(code), Message: message}, true
}

func fetchedJob(m *workerpb.FetchBatchJob) (api.FetchedJob, error) {
	j := api.FetchedJob{
		JobID: m.JobId, Queue: m.Queue, Payload: raw(m.PayloadJson), Attempt: int(m.Attempt), MaxRetries: int(m.MaxRetries),
		LeaseDuration: int(m.LeaseDuration), LeaseToken: m.LeaseToken, Checkpoint: raw(m.CheckpointJson),
	}
	err := errors.Join(field(m.TagsJson, &j.Tags), field(m.HeadersJson, &j.Headers), field(m.ToolResultsJson, &j.ToolResults))
	if a := m.Agent; a != nil {
		most, err1 := money.FromFloatShortest(a.MaxCostUsd)
		total, err2 := money.FromFloatShortest(a.TotalCostUsd)
		err = errors.Join(err, err1, err2)
		j.Agent = &api.FetchedAgent{
			MaxIterations: int(a.MaxIterations), MaxCostUSD: most, TotalCostUSD: total,
			IterationTimeout: api.Duration(a.IterationTimeout), Iteration: int(a.Iteration),
		}
	}
	return j, err
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// field reads a field that may be absent.
func field(text string, into any) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}
