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
	// retryFirst and retryMost bound the pause before the same leader is asked again. Another leader is asked
	// as soon as it is known.
	retryFirst = 10 * time.Millisecond
	retryMost  = 250 * time.Millisecond
	// maxOwnWait bounds the delay of the answer to a forwarded write until this node has applied the write.
	maxOwnWait = 2 * time.Second
)

// Unknown reports whether an error of Propose leaves the outcome unknown: the op may have been applied, or
// may still be. After any other error the op has changed nothing, except after an INTERNAL that says that the
// request was carried out, or that the op answered with the wrong type.
func Unknown(err error) bool {
	return errors.Is(err, pipeline.ErrUnknown) || errors.Is(err, replica.ErrUnknown) || api.CodeOf(err) == api.Unhealthy
}

func unknown(cause error, e *api.Error) error {
	u := api.Wrap(errors.Join(pipeline.ErrUnknown, cause), e.Code, e.Message)
	u.Details, u.RetryAfter = e.Details, e.RetryAfter
	return u
}

// propose implements ProposeWithin without a type for the result.
func (g *Group) propose(ctx context.Context, limit time.Duration, op Op) (any, Position, error) {
	begun := time.Now()
	term, missing := g.currentTerm()
	if missing != nil && (g.peers == nil || g.config.Codec == nil) {
		return nil, Position{}, toAPIError(missing)
	}
	var earlier error
	if missing == nil {
		result, at, err := term.ProposeWithin(ctx, limit, op)
		over := limit > 0 && err != nil && time.Since(begun) >= limit
		if err == nil || over || !g.mayRetry(ctx, op, err) {
			return result, at, toAPIError(err)
		}
		earlier = err
	}
	if limit > 0 { // forwarding waits in many places, which all watch ctx
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, begun.Add(limit))
		defer cancel()
	}
	return g.forward(ctx, op, earlier)
}

// mayRetry reports whether an op that failed with err may be proposed again.
func (g *Group) mayRetry(ctx context.Context, op Op, err error) bool {
	switch {
	case g.peers == nil || g.config.Codec == nil || ctx.Err() != nil:
		return false
	case Unknown(err):
		return g.config.Codec.Repeats(op)
	}
	return api.CodeOf(err) == api.LeaderUnavailable
}

// forward encodes an op once and proposes it to the present leader, again and again while mayRetry allows it.
// earlier is the error of an earlier attempt, or nil.
func (g *Group) forward(ctx context.Context, op Op, earlier error) (result any, at Position, err error) {
	size, err := pipeline.Check(op)
	if err != nil {
		return nil, Position{}, err
	}
	if err := g.forwarding.enter(int64(size), g.config.Limits); err != nil {
		return nil, Position{}, preferUnknown(err, earlier)
	}
	defer g.forwarding.leave(int64(size))
	var of entry.Trace
	if g.tracer != nil {
		of = g.tracer.Of(ctx)
	}
	request, err := encodeProposal(of, op, size)
	if err != nil {
		return nil, Position{}, preferUnknown(err, earlier)
	}
	doubt := earlier
	err = g.withLeader(ctx, func(leader replica.Peer) (bool, error) {
		var err error
		if result, at, err = g.proposeAt(ctx, leader, op, request); err == nil {
			return true, nil
		}
		doubt = preferUnknown(err, doubt)
		return !g.mayRetry(ctx, op, err), err
	})
	if err != nil {
		return nil, Position{}, preferUnknown(err, doubt)
	}
	return result, at, nil
}

// preferUnknown returns the error that describes all attempts so far. If an earlier attempt may have been
// applied, the "nothing was written" of a later attempt is not true of the op.
func preferUnknown(err, earlier error) error {
	if earlier != nil && Unknown(earlier) && !Unknown(err) {
		return earlier
	}
	return err
}

// proposeAt makes one attempt.
func (g *Group) proposeAt(ctx context.Context, leader replica.Peer, op Op, request []byte) (any, Position, error) {
	if leader.ID == g.identity.NodeID {
		term, err := g.currentTerm()
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
			return nil, Position{}, err // the leader's transport refused the call; handlePropose never returns an error
		}
		return nil, Position{}, unknown(err, api.Errorf(api.LeaderUnavailable, "the leader (%s) did not answer: the outcome of the request is unknown, repeat it with the same idempotency key", leader.ID))
	}
	a, err := decodeAnswer(data)
	if err != nil {
		return nil, Position{}, unknown(err, api.Errorf(api.Internal, "the leader's (%s) answer cannot be read: the outcome of the request is unknown", leader.ID))
	}
	result, err := g.resultOf(op, a)
	if err == nil {
		g.awaitOwnWrite(ctx, leader.ID, a.at)
	}
	return result, a.at, err
}

// resultOf converts the leader's answer to the result and error of a local Propose, where a refusal is a
// result.
func (g *Group) resultOf(op Op, a answer) (any, error) {
	switch a.outcome {
	case outcomeNil:
		return nil, nil
	case outcomeRefused:
		return decodeError(a.body), nil
	case outcomeUnwritten:
		err := decodeError(a.body)
		if api.CodeOf(err) == api.Unhealthy { // that member has stopped, but the group may go on
			return nil, api.Wrap(err, api.LeaderUnavailable, "the leader has stopped: nothing was written")
		}
		return nil, err
	case outcomeUnknown:
		err := decodeError(a.body)
		return nil, unknown(err, toAPIError(err).(*api.Error)) //nolint:errorlint // toAPIError returns nothing else
	}
	result, err := g.config.Codec.DecodeResult(op.Number(), a.body)
	if err != nil { // the op was applied and must not be repeated
		return api.Errorf(api.Internal, "the request was carried out, but its result cannot be read: %w", err), nil
	}
	return result, nil
}

// awaitOwnWrite waits until this node has applied a write, so that a caller who wrote through this node reads
// the write here. It returns no error when the time is over, because the write is done.
func (g *Group) awaitOwnWrite(ctx context.Context, leader string, at Position) {
	ctx, cancel := context.WithTimeout(ctx, maxOwnWait)
	defer cancel()
	g.replica.AdvanceCommit(ctx, leader, at)
	_ = g.replica.Await(ctx, at.Index)
}

// withLeader calls try with the present leader until try returns true. It calls try again after a pause, or
// at once when the leader may have changed. If ctx ends first, it returns LEADER_UNAVAILABLE; if the group is
// closed or has failed, it returns the reason (see unavailable).
func (g *Group) withLeader(ctx context.Context, try func(leader replica.Peer) (done bool, err error)) error {
	for delay := retryFirst; ; delay = min(2*delay, retryMost) {
		leader, changed, err := g.leader()
		if err != nil {
			return toAPIError(err)
		}
		var paused <-chan time.Time
		if leader.ID != "" {
			done, err := try(leader)
			if done {
				return toAPIError(err)
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

// leader returns the member that this node takes for the leader, and a channel that is closed when that may
// have changed. The member has no ID if this node knows no leader. leader returns an error if the group is
// closed or has failed, or has removed this member, which would wait for a leader in vain.
func (g *Group) leader() (replica.Peer, <-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed || g.replica.Err() != nil:
		return replica.Peer{}, nil, g.unavailable()
	case g.term != nil:
		return replica.Peer{ID: g.identity.NodeID}, g.changed, nil
	case g.removed():
		return replica.Peer{}, nil, errRemoved()
	}
	id, address := g.replica.Leader()
	if id == g.identity.NodeID { // its term has not begun or is over
		id = ""
	}
	return replica.Peer{ID: id, Address: address}, g.changed, nil
}

// call sends a request to another member. It prefers the transport's address for the member, because that
// address is newer than the configuration's.
func (g *Group) call(ctx context.Context, to replica.Peer, k transport.Kind, request []byte) ([]byte, error) {
	if g.peers == nil {
		return nil, errNoTransport()
	}
	address := ""
	if g.config.Transport.AddressOf(to.ID) == "" {
		address = to.Address
	}
	return g.peers.Call(ctx, transport.Peer{ID: to.ID, Address: address}, k, request)
}

func errNoTransport() error {
	return api.Errorf(api.StateConflict, "the group is closed to others: this node has no transport")
}

func errRemoved() error {
	err := api.Errorf(api.LeaderUnavailable, "the group has removed this member: nothing was written, ask another")
	err.RetryAfter = pipeline.MinRetryAfter
	return err
}

func errUnreached(id string, cause error) error {
	err := api.Errorf(api.LeaderUnavailable, "the leader (%s) could not be reached: nothing was written: %w", id, cause)
	err.RetryAfter = retryMost
	return err
}

// handlePropose proposes a forwarded op on this node and never forwards it again, because two members that
// take each other for the leader would pass it on for ever.
func (g *Group) handlePropose(ctx context.Context, _ transport.Peer, request []byte) ([]byte, error) {
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
	term, err := g.currentTerm()
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
	return g.answerFor(op, result, at).encodeBounded(), nil
}

func unwritten(err error) []byte {
	return answer{outcome: outcomeUnwritten, body: encodeError(err)}.encode()
}

func (g *Group) answerFor(op Op, result any, at Position) answer {
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

// forwarding bounds the ops that this node forwards, or keeps until a leader is known, by the backlog's
// limits.
type forwarding struct {
	mu    sync.Mutex
	ops   int
	bytes int64
	total uint64 // ops that entered since the group was opened
}

func (f *forwarding) enter(size int64, l pipeline.Limits) error {
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

// sent returns the number of ops that this node forwarded, or kept for a leader, since the group was opened.
func (f *forwarding) sent() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.total
}

func (f *forwarding) leave(size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops, f.bytes = f.ops-1, f.bytes-size
}
