package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

const (
	// retryFirst and retryMost bound the pause before a leader that could not be
	// reached is asked again; another leader is asked as soon as it is known.
	retryFirst = 10 * time.Millisecond
	retryMost  = 250 * time.Millisecond
	// maxOwnWait bounds how long the answer to a forwarded write is kept back until
	// this node would show it to a reader.
	maxOwnWait = 2 * time.Second
)

// Unknown says of an error of Propose that the op may have been applied, or may
// still be. Of all other errors it is certain that nothing was written.
func Unknown(err error) bool {
	return errors.Is(err, pipeline.ErrUnknown) || errors.Is(err, replica.ErrUnknown) || api.CodeOf(err) == api.Unhealthy
}

func unknown(cause error, e *api.Error) error {
	u := api.Wrap(errors.Join(pipeline.ErrUnknown, cause), e.Code, e.Message)
	u.Details, u.RetryAfter = e.Details, e.RetryAfter
	return u
}

// propose is ProposeWithin before the result has a type.
func (g *Group) propose(ctx context.Context, limit time.Duration, op Op) (any, Position, error) {
	begun := time.Now()
	term, missing := g.present()
	if missing != nil && (g.peers == nil || g.config.Codec == nil) {
		return nil, Position{}, outward(missing)
	}
	var earlier error
	if missing == nil {
		result, at, err := term.ProposeWithin(ctx, limit, op)
		over := limit > 0 && err != nil && time.Since(begun) >= limit
		if err == nil || over || !g.again(ctx, op, err) {
			return result, at, outward(err)
		}
		earlier = err
	}
	if limit > 0 { // the way to another member waits in many places
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, begun.Add(limit))
		defer cancel()
	}
	return g.forward(ctx, op, earlier)
}

// again says whether an op that met an error may be proposed anew.
func (g *Group) again(ctx context.Context, op Op, err error) bool {
	switch {
	case g.peers == nil || g.config.Codec == nil || ctx.Err() != nil:
		return false
	case Unknown(err):
		return g.config.Codec.Repeats(op)
	}
	return api.CodeOf(err) == api.LeaderUnavailable
}

// forward proposes an op to whoever leads, with the same bytes each time. earlier
// is the error of an attempt before, nil for none.
func (g *Group) forward(ctx context.Context, op Op, earlier error) (result any, at Position, err error) {
	size, err := pipeline.Check(op)
	if err != nil {
		return nil, Position{}, err
	}
	if err := g.forwards.enter(int64(size), g.config.Limits); err != nil {
		return nil, Position{}, orDoubt(err, earlier)
	}
	defer g.forwards.leave(int64(size))
	var of entry.Trace
	if g.tracer != nil {
		of = g.tracer.Of(ctx)
	}
	request, err := encodeProposal(of, op, size)
	if err != nil {
		return nil, Position{}, orDoubt(err, earlier)
	}
	doubt := earlier
	err = g.seek(ctx, func(leader replica.Peer) (bool, error) {
		var err error
		if result, at, err = g.proposeAt(ctx, leader, op, request); err == nil {
			return true, nil
		}
		doubt = orDoubt(err, doubt)
		return !g.again(ctx, op, err), err
	})
	if err != nil {
		return nil, Position{}, orDoubt(err, doubt)
	}
	return result, at, nil
}

// orDoubt is what is known after an attempt and those before it: if one of them
// may have been applied, what is certain of another says nothing of the op.
func orDoubt(err, earlier error) error {
	if earlier != nil && Unknown(earlier) && !Unknown(err) {
		return earlier
	}
	return err
}

// proposeAt is one attempt.
func (g *Group) proposeAt(ctx context.Context, leader replica.Peer, op Op, request []byte) (any, Position, error) {
	if leader.ID == g.identity.NodeID {
		term, err := g.present()
		if err != nil {
			return nil, Position{}, err
		}
		return term.Propose(ctx, op)
	}
	data, err := g.call(ctx, leader, callPropose, request)
	if err != nil {
		if transport.Unsent(err) {
			return nil, Position{}, errUnreached(leader.ID, err)
		}
		if api.CodeOf(err) == api.Overloaded {
			return nil, Position{}, err // of the leader's transport, which has not let it in: answerPropose answers no errors
		}
		return nil, Position{}, unknown(err, api.Errorf(api.LeaderUnavailable, "the leader (%s) did not answer: the outcome of the request is unknown, repeat it with the same idempotency key", leader.ID))
	}
	a, err := decodeAnswer(data)
	if err != nil {
		return nil, Position{}, unknown(err, api.Errorf(api.Internal, "the leader's (%s) answer cannot be read: the outcome of the request is unknown", leader.ID))
	}
	result, err := g.resultOf(op, a)
	if err == nil {
		g.showOwn(ctx, leader.ID, a.at)
	}
	return result, a.at, err
}

// resultOf is what Propose would have answered where the answer was given.
func (g *Group) resultOf(op Op, a answer) (any, error) {
	switch a.outcome {
	case outcomeNil:
		return nil, nil
	case outcomeRefused:
		return decodeError(a.body), nil
	case outcomeUnwritten:
		err := decodeError(a.body)
		if api.CodeOf(err) == api.Unhealthy { // that member is; the group may not be
			return nil, api.Wrap(err, api.LeaderUnavailable, "the leader has stopped: nothing was written")
		}
		return nil, err
	case outcomeUnknown:
		err := decodeError(a.body)
		return nil, unknown(err, outward(err).(*api.Error)) //nolint:errorlint // outward answers nothing else
	}
	result, err := g.config.Codec.DecodeResult(op.Number(), a.body)
	if err != nil { // applied, and not to be repeated
		return api.Errorf(api.Internal, "the request was carried out, but its result cannot be read: %w", err), nil
	}
	return result, nil
}

// showOwn waits until this node has applied what was written through it, so that
// its callers read their own writes here. That it takes too long is no error: the
// write is done.
func (g *Group) showOwn(ctx context.Context, leader string, at Position) {
	ctx, cancel := context.WithTimeout(ctx, maxOwnWait)
	defer cancel()
	g.replica.AdvanceCommit(ctx, leader, at)
	_ = g.replica.Await(ctx, at.Index)
}

// seek has try ask the leader, whoever that is, until it is done. When the leader
// changes it tries the next at once, else after a pause.
func (g *Group) seek(ctx context.Context, try func(leader replica.Peer) (done bool, err error)) error {
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		leader, changed, err := g.leader()
		if err != nil {
			return outward(err)
		}
		var paused <-chan time.Time
		if leader.ID != "" {
			done, err := try(leader)
			if done {
				return outward(err)
			}
			paused = time.After(delay)
		}
		select {
		case <-changed:
		case <-paused:
		case <-ctx.Done():
			err := api.Wrap(context.Cause(ctx), api.LeaderUnavailable, "no leader of the group could be reached before the request ended: nothing was written")
			err.RetryAfter = retryMost
			return err
		}
	}
}

// leader is the member that this node would ask, without an ID when it knows of
// none, and what is closed when that may have changed.
func (g *Group) leader() (replica.Peer, <-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed || g.replica.Err() != nil:
		return replica.Peer{}, nil, g.unavailable()
	case g.term != nil:
		return replica.Peer{ID: g.identity.NodeID}, g.changed, nil
	}
	id, address := g.replica.Leader()
	if id == g.identity.NodeID { // its term has not begun or is over
		id = ""
	}
	return replica.Peer{ID: id, Address: address}, g.changed, nil
}

// call asks another member. What the transport knows of its address is newer than
// what the configuration says.
func (g *Group) call(ctx context.Context, to replica.Peer, k transport.Kind, request []byte) ([]byte, error) {
	address := ""
	if g.config.Transport.AddressOf(to.ID) == "" {
		address = to.Address
	}
	return g.peers.Call(ctx, transport.Peer{ID: to.ID, Address: address}, k, request)
}

func errUnreached(id string, cause error) error {
	err := api.Errorf(api.LeaderUnavailable, "the leader (%s) could not be reached: nothing was written: %w", id, cause)
	err.RetryAfter = retryMost
	return err
}

// answerPropose proposes what another member forwards, here and nowhere else: were
// it sent on, two members that take each other for the leader would keep it.
func (g *Group) answerPropose(ctx context.Context, _ transport.Peer, request []byte) ([]byte, error) {
	if g.config.Codec == nil {
		return unwritten(api.Errorf(api.Unsupported, "this member takes no forwarded requests: ask the leader")), nil
	}
	p, err := decodeProposal(request)
	if err != nil {
		return unwritten(api.Errorf(api.Internal, "%w", err)), nil
	}
	op, err := g.config.Codec.Decode(p.op)
	if err != nil {
		return unwritten(api.Errorf(api.Unsupported, "the leader cannot read op %d: %w", p.op.Number, err)), nil
	}
	if p.trace != (entry.Trace{}) {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanOf(p.trace))
	}
	term, err := g.present()
	if err != nil {
		return unwritten(err), nil
	}
	result, at, err := term.Propose(ctx, op)
	switch {
	case err != nil && Unknown(err):
		return answer{outcome: outcomeUnknown, body: encodeError(err)}.encode(), nil
	case err != nil:
		return unwritten(err), nil
	}
	return g.answerOf(op, result, at).fit(), nil
}

func unwritten(err error) []byte {
	return answer{outcome: outcomeUnwritten, body: encodeError(err)}.encode()
}

func (g *Group) answerOf(op Op, result any, at Position) answer {
	if result == nil {
		return answer{outcome: outcomeNil, at: at}
	}
	if isNilPointer(result) {
		result = api.Errorf(api.Internal, "op %d answered a nil %T", op.Number(), result)
	}
	if refused, ok := result.(error); ok {
		return answer{outcome: outcomeRefused, at: at, body: encodeError(refused)}
	}
	body, err := g.config.Codec.EncodeResult(op.Number(), result)
	if err != nil {
		err = api.Errorf(api.Internal, "the request was carried out, but its result cannot be sent: %w", err)
		return answer{outcome: outcomeRefused, at: at, body: encodeError(err)}
	}
	return answer{outcome: outcomeResult, at: at, body: body}
}

// forwards bounds what this node has on its way to a leader, or keeps until there
// is one: as much as its own backlog would be if it led.
type forwards struct {
	mu    sync.Mutex
	ops   int
	bytes int64
	total uint64 // since the group was opened
}

func (f *forwards) enter(size int64, l pipeline.Limits) error {
	l = l.WithDefaults()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ops >= l.BacklogOps || f.bytes+size > l.BacklogBytes {
		err := api.Errorf(api.Overloaded, "%d requests (%d bytes) are on their way to the leader: try again later", f.ops, f.bytes)
		err.RetryAfter = retryMost
		return err
	}
	f.ops, f.bytes, f.total = f.ops+1, f.bytes+size, f.total+1
	return nil
}

// sent is how many ops were forwarded since the group was opened.
func (f *forwards) sent() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

func (f *forwards) leave(size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops, f.bytes = f.ops-1, f.bytes-size
}
