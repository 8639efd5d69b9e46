package engine

import (
	"context"

	"github.com/corvo/corvo/engine/transport"
)

// HoldConfirm delays every confirmation of leadership until release is called.
func (g *Group) HoldConfirm() (release func()) {
	r := &g.confirming
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = true
	return func() { r.serve(g.confirm) }
}

// AnswerIndex returns the position that a follower receives when it asks this member.
func (g *Group) AnswerIndex(ctx context.Context) (at Position, err error) {
	data, err := g.handleIndex(ctx, transport.Peer{}, nil)
	if err != nil {
		return at, err
	}
	f := fields(data)
	return at, f.numbers(&at.Index, &at.Term)
}
