package engine

import (
	"context"

	"github.com/corvo/corvo/engine/transport"
)

// HoldConfirm has all who want leadership confirmed wait until release is called.
func (g *Group) HoldConfirm() (release func()) {
	r := &g.confirming
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = true
	return func() { r.serve(g.confirm) }
}

// AnswerIndex is what a follower gets that asks this member.
func (g *Group) AnswerIndex(ctx context.Context) (at Position, err error) {
	data, err := g.answerIndex(ctx, transport.Peer{}, nil)
	if err != nil {
		return at, err
	}
	f := fields(data)
	return at, f.numbers(&at.Index, &at.Term)
}
