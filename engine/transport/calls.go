package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
)

// Kind identifies the purpose of a call. Kinds 1 to 31 are for groups (the engine has their table), kinds
// from 32 on for processes.
type Kind uint8

// Handler answers a call. The ID and the key in from come from the caller's certificate. An *api.Error
// reaches the caller with its code, message, details and retry after; any other error becomes INTERNAL. ctx
// ends when the caller gives up, as far as this node knows, and with the connection. The Handler owns the
// request. A panic ends the process.
type Handler func(ctx context.Context, from Peer, request []byte) ([]byte, error)

const (
	// maxCalls and maxCallBytes bound the calls of a connection that are answered at a time. Further calls
	// are refused as OVERLOADED.
	maxCalls     = 1024
	maxCallBytes = 128 << 20
	// callHeader is the largest size of the bytes before a call's request.
	callHeader = 1 + binary.MaxVarintLen64
)

type handlers struct {
	mu  sync.RWMutex
	of  map[Kind]Handler
	any map[Kind]bool // kinds that are answered to impostors too
}

// open reports whether calls of kind k from impostors are answered.
func (s *handlers) open(k Kind) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.any[k]
}

func (s *handlers) setAny(k Kind, h Handler) {
	s.set(k, h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.any == nil {
		s.any = map[Kind]bool{}
	}
	s.any[k] = true
}

func (s *handlers) set(k Kind, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[Kind]Handler{}
	}
	s.of[k] = h
}

func (s *handlers) get(k Kind) Handler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.of[k]
}

// Call sends a request to a process. The error is the Handler's, OVERLOADED if the process answers too many
// calls of this node, PAYLOAD_TOO_LARGE if the request or the answer exceeds MaxCall bytes, or one of the
// connection: LEADER_UNAVAILABLE; UNAUTHORIZED if one end does not accept the other's certificate; CONFLICT
// if another process is known under the ID of one of the two. For an error of the connection, Unsent reports
// whether the request cannot have arrived, and errors.Is with ErrRefused whether one end refused the other.
func (t *Transport) Call(ctx context.Context, to Peer, k Kind, request []byte) ([]byte, error) {
	return t.callOn(ctx, to, nil, k, request)
}

// Call sends a request to another member's end of the group. It returns the errors of Transport.Call, with
// LEADER_UNAVAILABLE instead of UNAUTHORIZED and CONFLICT, because the error may reach a client, whom those codes
// would tell that its own request is refused.
func (g *Group) Call(ctx context.Context, to Peer, k Kind, request []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.ctx, func() { cancel(ErrClosed) })()
	return g.t.callOn(ctx, to, g, k, request)
}

func (t *Transport) callOn(ctx context.Context, to Peer, g *Group, k Kind, request []byte) ([]byte, error) {
	if len(request) > MaxCall {
		return nil, tooLarge("request", len(request))
	}
	answer, err := t.roundTrip(ctx, to, g, frameCall, appendCall(ctx, k, request), ownStream)
	if err == nil {
		return answer, nil
	}
	var answered *api.Error
	if !Unsent(err) && errors.As(err, &answered) { // a peer that did not see the request has not answered it
		return nil, answered
	}
	code := api.LeaderUnavailable
	switch {
	case g != nil: // its caller tries again, because a certificate or an address may be corrected
	case errors.Is(err, &api.Error{Code: api.Unauthorized}):
		code = api.Unauthorized
	case errors.Is(err, &api.Error{Code: api.Conflict}):
		code = api.Conflict
	}
	return nil, api.Wrap(err, code, "node "+to.String()+" gave no answer ("+err.Error()+"); try again")
}

func tooLarge(what string, size int) *api.Error {
	return api.Errorf(api.PayloadTooLarge, "a %s of %d bytes is more than the %d that go from node to node; send less at a time", what, size, MaxCall)
}

func (p Peer) String() string {
	if p.ID == "" {
		return "at " + p.Address
	}
	return p.ID
}

// Unsent reports whether a call failed before any peer can have seen the request. Such a call can always be
// repeated.
func Unsent(err error) bool { return errors.Is(err, errUnsent) }

// appendCall encodes a call: its kind, the caller's remaining time in nanoseconds (0 = unlimited) and the
// request.
func appendCall(ctx context.Context, k Kind, request []byte) []byte {
	to := append(make([]byte, 0, callHeader+len(request)), byte(k))
	var left time.Duration
	if at, ok := ctx.Deadline(); ok {
		left = max(1, time.Until(at))
	}
	to = binary.AppendUvarint(to, uint64(left))
	return append(to, request...)
}

func decodeCall(b []byte) (k Kind, left time.Duration, request []byte, err error) {
	c := cursor{rest: b}
	k, left = Kind(c.byte()), time.Duration(c.uint())
	if left < 0 {
		c.fail("a caller waits for less than no time")
	}
	return k, left, c.rest, c.err
}

// handleCall answers a call on a goroutine of its own, because a Handler may take as long as its caller
// waits.
func (c *conn) handleCall(h header, payload []byte) error {
	k, left, request, err := decodeCall(payload)
	if err != nil {
		return err
	}
	handler, group, fault := c.handler(h.group, k)
	if fault != nil {
		c.sendFault(h.request, faultUnseen, fault)
		return nil
	}
	ctx, cancel := c.callContext(left)
	if !c.admitCall(h.request, len(request), cancel) {
		cancel()
		c.sendFault(h.request, faultCall, api.Errorf(api.Overloaded, "the node answers %d calls of yours already; try again", maxCalls))
		return nil
	}
	serve := func() {
		defer cancel()
		answer, err := handler(ctx, c.caller(), request)
		c.leaveCall(h.request, len(request))
		c.answer(h.request, answer, err)
	}
	if group == nil {
		c.served.Go(serve)
	} else if !group.serve(ctx, cancel, serve) {
		c.leaveCall(h.request, len(request))
		cancel()
		c.sendFault(h.request, faultUnseen, ErrClosed)
	}
	return nil
}

// callContext returns the context for a call whose caller waits for left, or without limit if left is 0.
func (c *conn) callContext(left time.Duration) (context.Context, context.CancelFunc) {
	if left > 0 {
		return context.WithTimeout(c.ctx, left)
	}
	return context.WithCancel(c.ctx)
}

// caller returns the peer for a Handler.
func (c *conn) caller() Peer {
	if c.impostor.Load() {
		return Peer{ID: c.peer, Address: c.hello.address, Key: c.key}
	}
	return Peer{c.peer, c.t.AddressOf(c.peer), c.key}
}

// handler returns the handler of a call to a group or, with number 0, to the process.
func (c *conn) handler(number uint32, k Kind) (Handler, *Group, error) {
	handlers, g := &c.t.handlers, (*Group)(nil)
	if number != 0 {
		var err error
		if _, g, err = c.addressed(number); err != nil {
			return nil, nil, err
		}
		handlers = &g.handlers
	}
	h := handlers.get(k)
	if c.impostor.Load() && !handlers.open(k) {
		return nil, nil, errIDTaken(c.peer)
	}
	if h == nil {
		return nil, nil, remoteErrorf("calls of kind %d are not answered here", k)
	}
	return h, g, nil
}

func (c *conn) admitCall(request uint64, size int, end func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) >= maxCalls || c.callBytes+size > maxCallBytes || c.calls[request] != nil {
		return false
	}
	c.calls[request] = end
	c.callBytes += size
	return true
}

func (c *conn) leaveCall(request uint64, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, request)
	c.callBytes -= size
}

func (c *conn) answer(request uint64, answer []byte, err error) {
	if err == nil && len(answer) > MaxCall {
		err = tooLarge("answer", len(answer))
	}
	if err != nil {
		c.sendFault(request, faultCall, err)
		return
	}
	c.sendAnswer(request, answer)
}

// sendAnswer waits for room if the answer is long. Only a Handler's goroutine ever waits, not the reader,
// because only Handlers give long answers.
func (c *conn) sendAnswer(request uint64, payload []byte) {
	m := &message{header: header{kind: frameAnswer, request: request}, payload: payload}
	if len(payload) <= shortAnswer {
		c.enqueueUrgent(m)
		return
	}
	_ = c.out.put(c.ctx, request, m) // it fails only if the connection and the caller are gone
}

// shortAnswer bounds, in bytes, the answers that are sent before long ones.
const shortAnswer = 4 << 10

func (c *conn) sendFault(request uint64, kind faultKind, err error) {
	m := &message{header: header{kind: frameFault, request: request}, payload: encodeFault(kind, err)}
	if len(m.payload) <= MaxFrame {
		c.enqueueUrgent(m)
		return
	}
	_ = c.out.put(c.ctx, request, m) // as in sendAnswer
}
