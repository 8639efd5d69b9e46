package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/rpc"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/workerpb/workerpbconnect"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/router"
	"github.com/corvo/corvo/tenancy"
)

// procedures returns the routes of the Worker RPC. Each procedure with one request and one answer calls the
// functions of the HTTP route of its name. StreamLifecycle needs only the right to work when it begins; it
// checks other rights when a frame needs them. The last route refuses unknown procedures.
func (s *Server) procedures() []serve.Route {
	return []serve.Route{
		unary(s, workerpbconnect.WorkerServiceEnqueueProcedure, tenancy.JobEnqueue, s.bodyEnqueue(), s.rpcEnqueue),
		unary(s, workerpbconnect.WorkerServiceFetchProcedure, tenancy.JobWork, bodyFetch, s.rpcFetch),
		unary(s, workerpbconnect.WorkerServiceFetchBatchProcedure, tenancy.JobWork, bodyFetch, s.rpcFetchBatch),
		unary(s, workerpbconnect.WorkerServiceAckProcedure, tenancy.JobWork, bodyAck, s.rpcAck),
		unary(s, workerpbconnect.WorkerServiceAckBatchProcedure, tenancy.JobWork, bodyBatch, s.rpcAckBatch),
		unary(s, workerpbconnect.WorkerServiceFailProcedure, tenancy.JobWork, bodyFail, s.rpcFail),
		unary(s, workerpbconnect.WorkerServiceHeartbeatProcedure, tenancy.JobWork, bodyBatch, s.rpcHeartbeat),
		unary(s, workerpbconnect.WorkerServiceGetServerInfoProcedure, serve.Open, bodyManage, s.rpcInfo),
		procedure(workerpbconnect.WorkerServiceStreamLifecycleProcedure, tenancy.JobWork, bodyBatch, s,
			connect.NewBidiStreamHandler(workerpbconnect.WorkerServiceStreamLifecycleProcedure, s.rpcStream, rpcOptions...)),
		procedure(workerpbconnect.WorkerServiceSubscribeProcedure, tenancy.JobRead, bodyManage, s,
			connect.NewServerStreamHandler(workerpbconnect.WorkerServiceSubscribeProcedure, s.rpcSubscribe, rpcOptions...)),
		{Method: http.MethodPost, Path: rpc.Prefix + "{procedure}", Permission: serve.Open, Problem: rpc.Refuse, Handler: noProcedure},
	}
}

// rpcOptions apply to all procedures. Messages are not compressed, because between machines of one data
// centre compression costs more than it saves. A compressed message could also be small on the wire, so that
// no bound refuses it, and large in memory.
var rpcOptions = []connect.HandlerOption{rpc.Codecs(), connect.WithCompression("gzip", nil, nil)}

// procedure builds the route of one procedure. most bounds the bytes of each of its messages.
func procedure(path string, may tenancy.Permission, most int64, s *Server, h http.Handler) serve.Route {
	return serve.Route{
		Method: http.MethodPost, Path: path, Permission: may, MaxBody: most, Problem: rpc.Refuse,
		Handler: func(w http.ResponseWriter, r *http.Request) error { return s.serveRPC(w, r, h, most) },
	}
}

// unary builds the route of a procedure with one request and one answer.
func unary[Req, Res any](s *Server, path string, may tenancy.Permission, most int64, do func(*rpcCall, *Req) (*Res, error)) serve.Route {
	h := connect.NewUnaryHandler(path, func(ctx context.Context, m *connect.Request[rpc.Received[Req]]) (*connect.Response[Res], error) {
		c := rpcCallOf(ctx)
		c.r = c.r.WithContext(ctx) // its context ends at the caller's deadline
		if m.Msg.Err != nil {
			return nil, c.refuse(m.Msg.Err)
		}
		out, err := do(c, &m.Msg.Message)
		if err != nil {
			return nil, c.refuse(err)
		}
		return connect.NewResponse(out), nil
	}, rpcOptions...)
	return procedure(path, may, most, s, h)
}

// rpcCall is one running call.
type rpcCall struct {
	w    http.ResponseWriter
	r    *http.Request
	body *rpcBody
	out  *rpcWriter

	q      request
	leased []lease // the jobs in its answer
}

type rpcCallKey struct{}

func rpcCallOf(ctx context.Context) *rpcCall { return ctx.Value(rpcCallKey{}).(*rpcCall) }

// serveRPC answers one call and gives back the jobs that could not be delivered.
func (s *Server) serveRPC(w http.ResponseWriter, r *http.Request, h http.Handler, most int64) error {
	if err := rpc.CheckHeaders(r); err != nil {
		return err
	}
	c := &rpcCall{w: w}
	body := rpc.Body(r, r.URL.Path != workerpbconnect.WorkerServiceStreamLifecycleProcedure)
	c.body = &rpcBody{ReadCloser: body, control: http.NewResponseController(w), of: &s.bodies, most: most, wait: s.cfg.MessageWait}
	defer c.body.release()
	r = r.WithContext(context.WithValue(r.Context(), rpcCallKey{}, c))
	r.Body = c.body
	out := &rpcWriter{ResponseWriter: w, r: r}
	c.r, c.out = r, out
	h.ServeHTTP(out, r)
	if len(c.leased) == 0 {
		return nil
	}
	// Only a flush shows whether the connection accepted the answer.
	if err := http.NewResponseController(w).Flush(); err != nil || out.err != nil || r.Context().Err() != nil {
		s.undelivered(r, &c.q, c.leased)
	}
	return nil
}

// refuse converts an error for the caller.
func (c *rpcCall) refuse(err error) error { return rpc.Error(serve.Refused(c.r, err)) }

// beginRPC does the work of Server.begin for a call whose message m has been decoded. It does not audit.
func (s *Server) beginRPC(c *rpcCall, m proto.Message) (*request, error) {
	who := serve.Principal(c.r.Context())
	shards, err := router.Open(s.cfg.Host, who.Namespace)
	if err != nil {
		return nil, err
	}
	c.q = request{who: who, shards: shards, meta: &op.Meta{Principal: principalOf(who)}}
	if c.r.Header[idempotencyHeader] == nil {
		return &c.q, nil
	}
	// A repeat may be encoded differently, so the hash covers the message's content and not its bytes on the
	// wire.
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	c.q.meta.Idempotency, err = idempotency(c.r, body)
	return &c.q, err
}

// rpcWriter records connection errors. It removes Connect's header of accepted compressions, because the list
// is empty.
type rpcWriter struct {
	http.ResponseWriter
	r     *http.Request
	begun bool
	err   error

	written   int64 // bytes
	postponed bool  // flushes are postponed, so that several messages are sent together
}

// begin removes the header before the headers are sent.
func (w *rpcWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	h := w.Header()
	delete(h, "Accept-Encoding")
	delete(h, "Connect-Accept-Encoding")
	delete(h, "Grpc-Accept-Encoding")
}

func (w *rpcWriter) Write(b []byte) (int, error) {
	w.begin()
	n, err := w.ResponseWriter.Write(b)
	w.written += int64(n)
	if err != nil {
		w.err = err
	}
	return n, err
}

// Flush implements http.Flusher.
func (w *rpcWriter) Flush() {
	w.begin()
	if w.postponed {
		return
	}
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		w.err = err
	}
}

// Unwrap gives http.ResponseController access to the connection.
func (w *rpcWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// DefaultMessageWait is the longest time that the message of a call may take to arrive.
const DefaultMessageWait = 30 * time.Second

// rpcBody reads a caller's messages within their bounds: size, time, and the bytes of requests that the node
// holds. A stream calls cut between its messages. The time of each message of a stream begins with the
// message's first byte.
type rpcBody struct {
	io.ReadCloser
	control *http.ResponseController
	of      *budget
	most    int64
	wait    time.Duration // the time for a message
	late    *time.Timer   // ends the read of a stream's incomplete message; nil: not a stream
	timed   bool          // a read deadline is set
	read    int64         // bytes of the message, all taken from the budget
	err     error         // the error of later reads
}

func (b *rpcBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.late == nil && !b.timed {
		b.timed = true
		_ = b.control.SetReadDeadline(time.Now().Add(b.wait)) // writers of tests have no deadline
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case b.read+int64(n) > b.most:
		b.err = rpc.Error(api.Errorf(api.PayloadTooLarge, "the message is larger than %d bytes", b.most))
		return 0, b.err
	case n > 0 && !b.of.take(int64(n)):
		e := api.Errorf(api.Overloaded, "this server has %d bytes of requests in hand, and takes %d: try again later, with smaller messages or fewer at once", b.of.used.Load(), b.of.most)
		e.RetryAfter = overloadRetry
		b.err = rpc.Error(e)
		return 0, b.err
	}
	if b.late != nil && b.read == 0 && n > 0 {
		b.late.Reset(b.wait)
	}
	b.read += int64(n)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = rpc.Error(api.Errorf(api.ParseError, "the message did not arrive within %s", b.wait))
	case errors.Is(err, io.EOF) && b.late == nil:
		_ = b.control.SetReadDeadline(time.Time{}) // the answer may take longer than the request
	}
	return n, err
}

// cut ends a message and returns its number of bytes. The caller must give them back to the budget.
func (b *rpcBody) cut() int64 {
	if b.late != nil {
		b.late.Stop()
	}
	n := b.read
	b.read = 0
	return n
}

func (b *rpcBody) release() { b.of.give(b.cut()) }
