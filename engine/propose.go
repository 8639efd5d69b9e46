package engine

import (
	"context"
	"reflect"
	"time"

	"github.com/corvo/corvo/api"
)

// Propose changes the machine by one op. It returns the op's result and its entry's position once the change
// is durable and applied. R is the type of the op's results; for an op whose result is nil, R is any. If the
// result is an error, the machine has refused the op and changed nothing, and Propose returns that error.
// Every error is an *api.Error (see pipeline.Pipeline.Propose). Unknown reports whether an error leaves the
// outcome unknown.
//
// With a Transport and a Codec, Propose forwards the op if another member leads, and waits for a leader until
// ctx ends if there is none. It retries while that is safe: nothing was written, or the Codec says that the op
// finds its own effect. Without them, a member that does not lead returns LEADER_UNAVAILABLE at once.
func Propose[R any](ctx context.Context, g *Group, op Op) (R, Position, error) {
	return ProposeWithin[R](ctx, 0, g, op)
}

// ProposeWithin is like Propose, but treats the end of the time limit like the end of ctx; 0 sets no limit.
// On the leader the limit costs less than a context for each op.
func ProposeWithin[R any](ctx context.Context, limit time.Duration, g *Group, op Op) (R, Position, error) {
	var none R
	result, at, err := g.propose(ctx, limit, op)
	if err != nil {
		return none, Position{}, toAPIError(err)
	}
	return typed[R](op, result, at)
}

// ProposeInTerm is like Propose, but commits the op only in the given term of this member's leadership (see
// LeadingTerm). It never forwards the op and never repeats it, because another leader decides for itself.
// Outside the term it returns LEADER_UNAVAILABLE.
func ProposeInTerm[R any](ctx context.Context, g *Group, term uint64, op Op) (R, Position, error) {
	var none R
	g.mu.Lock()
	p, number := g.term, g.number
	g.mu.Unlock()
	if p == nil || number != term {
		return none, Position{}, errNotLeader()
	}
	result, at, err := p.Propose(ctx, op)
	if err != nil {
		return none, Position{}, toAPIError(err)
	}
	return typed[R](op, result, at)
}

// typed converts the result of an op to the type that the caller expects, or to the error that refused the op.
func typed[R any](op Op, result any, at Position) (R, Position, error) {
	var none R
	if isNilPointer(result) {
		// A nil pointer is neither a useful result nor a useful error.
		return none, at, api.Errorf(api.Internal, "op %d answered a nil %T", op.Number(), result)
	}
	if refused, ok := result.(error); ok {
		return none, at, toAPIError(refused)
	}
	of, ok := result.(R)
	if !ok && !(result == nil && reflect.TypeFor[R]().Kind() == reflect.Interface) {
		return none, at, api.Errorf(api.Internal, "op %d answered a %T where a %T was expected", op.Number(), result, none)
	}
	return of, at, nil
}

func isNilPointer(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
