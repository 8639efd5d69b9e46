package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// listen takes what other members ask. It comes before raft runs, so that none of
// it meets a group that does not know the question.
func (g *Group) listen() {
	g.peers.Admit(g.admit)
	for kind, h := range map[transport.Kind]transport.Handler{
		callPropose: g.answerPropose, callIndex: g.answerIndex, callTerm: g.answerTerm, callChange: g.answerChange, callRemoved: g.answerRemoved,
	} {
		g.peers.Handle(kind, func(ctx context.Context, from transport.Peer, request []byte) ([]byte, error) {
			select {
			case <-g.opened:
				return h(ctx, from, request)
			case <-g.life.Done():
				return nil, errClosed()
			case <-ctx.Done():
				return nil, verifyEnded(ctx)
			}
		})
	}
}

// admit says who may speak in the group, among those whom the transport's
// Identity trusts. A leader listens to the members of its configuration: it is
// the newest there is. Whoever follows listens to all, for the configuration it
// has may be older than the leader that wants to tell it the new one; who asks it
// for a vote without being a member is refused by raft. A leader that was deposed
// and does not know refuses one that it has never heard of for as long as its
// lease lasts.
func (g *Group) admit(id string) bool {
	select {
	case <-g.opened:
	default:
		return true
	}
	if !g.replica.Leads() {
		return true
	}
	for _, p := range g.replica.Members() {
		if p.ID == id {
			return true
		}
	}
	if g.strangers.due(id) {
		g.spawn(func() { g.farewell(g.life, replica.Peer{ID: id}) })
	}
	return false
}

// farewellPause is how long a leader that hears a stranger again and again waits
// before it says so again.
const farewellPause = 10 * time.Second

// strangers are those who speak and are no members: mostly ones that were removed
// while they were away, stand for election, and cannot know better. There are at
// most as many as nodes with a certificate.
type strangers struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// due says whether a stranger is to be told now what it is.
func (s *strangers) due(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.told[id].IsZero() || now.Sub(s.told[id]) >= farewellPause {
		if s.told == nil {
			s.told = map[string]time.Time{}
		}
		s.told[id] = now
		return true
	}
	return false
}

// LeaderID is the node this one takes for the leader; "" = it knows of none.
func (g *Group) LeaderID() string {
	id, _ := g.replica.Leader()
	return id
}

// Lead runs f whenever this node leads and serves, until ctx ends: f's context
// ends with the leadership, and f must then return before it is run again. It
// returns f's error when there is one, unless that is the end of f's context, and
// the group's when it has failed or is closed; nil when ctx ends.
func (g *Group) Lead(ctx context.Context, f func(ctx context.Context) error) error {
	for {
		term, err := g.awaitTerm(ctx)
		if err != nil || term == nil {
			return err
		}
		if err := g.leadTerm(ctx, term, f); err != nil {
			return err
		}
		select { // f may have returned before the term has ended
		case <-term.Done():
		case <-ctx.Done():
			return nil
		}
	}
}

func (g *Group) leadTerm(ctx context.Context, term *pipeline.Pipeline, f func(context.Context) error) error {
	leading, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	defer func() { cancel(); <-watched }()
	go func() {
		defer close(watched)
		g.awaitEnd(leading, term)
		cancel()
	}()
	err := f(leading)
	if leading.Err() != nil && errors.Is(err, leading.Err()) {
		return nil
	}
	return err
}

// awaitEnd returns when the group's present term is another, or ctx ends.
func (g *Group) awaitEnd(ctx context.Context, term *pipeline.Pipeline) {
	for {
		g.mu.Lock()
		over, changed := g.term != term || g.closed, g.changed
		g.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// awaitTerm is the next term that serves; nil when ctx ends first.
func (g *Group) awaitTerm(ctx context.Context) (*pipeline.Pipeline, error) {
	for {
		g.mu.Lock()
		term, changed, closed := g.term, g.changed, g.closed
		err := g.unavailable()
		g.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case closed || g.replica.Err() != nil:
			return nil, outward(err)
		case term != nil && started(term):
			return term, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
