package engine

import (
	"context"
	"reflect"
	"time"

	"github.com/corvo/corvo/api"
)

// Propose changes the machine by one op and returns the op's result once the
// change is durable and applied. R is the type of the op's results; an op that
// answers nil has R = any. A result that is an error is returned as the error:
// the op was refused and has changed nothing. Every error is an *api.Error, see
// pipeline.Propose; those that leave the outcome unknown say so: see Unknown.
//
// Where another member leads, the op goes there. It is proposed again while that
// is safe: nothing was written, or the Codec says that it finds its own effect.
// Without a leader the call waits for one, until ctx ends.
func Propose[R any](ctx context.Context, g *Group, op Op) (R, Position, error) {
	return ProposeWithin[R](ctx, 0, g, op)
}

// ProposeWithin is Propose that ends after a time as it does when ctx ends; 0 = never.
// It costs less than a context made for each op, where this member leads.
func ProposeWithin[R any](ctx context.Context, limit time.Duration, g *Group, op Op) (R, Position, error) {
	var none R
	result, at, err := g.propose(ctx, limit, op)
	if err != nil {
		return none, Position{}, outward(err)
	}
	if isNilPointer(result) {
		// Taken for a result it would be one that says nothing; taken for an error,
		// one that is none.
		return none, at, api.Errorf(api.Internal, "op %d answered a nil %T", op.Number(), result)
	}
	if refused, ok := result.(error); ok {
		return none, at, outward(refused)
	}
	typed, ok := result.(R)
	if !ok && !(result == nil && reflect.TypeFor[R]().Kind() == reflect.Interface) {
		return none, at, api.Errorf(api.Internal, "op %d answered a %T where a %T was expected", op.Number(), result, none)
	}
	return typed, at, nil
}

func isNilPointer(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
