package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/corvo/corvo/engine/membership"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// registerHandlers registers the handlers for calls of other members, before raft starts. A call that arrives
// earlier fails as unsent, and its sender repeats it. Each handler waits until the group is open.
func (g *Group) registerHandlers() {
	g.peers.Admit(g.admit)
	for kind, h := range map[transport.Kind]transport.Handler{
		callPropose: g.handlePropose, callIndex: g.handleIndex, callTerm: g.handleTerm, callChange: g.handleChange, callRemoved: g.handleRemoved,
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

// admit decides which nodes may send to this member in the group, among those that the transport's Identity
// trusts. A leader accepts only members of its configuration, because no newer one exists. A follower may have an
// older configuration than a leader that is about to send it the new one. It accepts every node or, with
// Config.Peers, each node for which belongs is true. Raft itself refuses a vote to a node that is not a member. A
// leader that was deposed and does not know it keeps refusing a new leader outside of its configuration, until its
// lease expires.
func (g *Group) admit(id string) bool {
	select {
	case <-g.opened:
	default:
		return g.config.Peers == nil || g.config.Peers(id)
	}
	if !g.replica.Leads() {
		return g.config.Peers == nil || g.belongs(id)
	}
	if g.configured(id) {
		return true
	}
	if g.nonMembers.due(id) {
		g.spawn(func() { g.notifyRemoved(g.life, replica.Peer{ID: id}) })
	}
	return false
}

// configured reports whether a node is in the newest configuration of the log.
func (g *Group) configured(id string) bool {
	return slices.ContainsFunc(g.replica.Members(), func(p replica.Peer) bool { return p.ID == id })
}

// belongs reports whether a node is in a configuration or in the list of members, or whether Config.Peers knows it. The
// applied configuration counts beside the newest one, because the leader that removes itself must tell this member that
// the newest one is committed.
func (g *Group) belongs(id string) bool {
	if g.configured(id) {
		return true
	}
	if _, applied, _ := g.member(id); applied {
		return true
	}
	list, _ := g.list()
	return slices.ContainsFunc(list, func(m membership.Listed) bool { return m.ID == id }) || g.config.Peers(id)
}

// removedNoticeInterval is the wait before a leader repeats its notice to a node that is not a member.
const removedNoticeInterval = 10 * time.Second

// nonMembers records nodes that send without being members. Most of them are members that were removed while
// they were away: they stand for election because they cannot know of their removal. Their number is bounded,
// because each has a certificate of the cluster.
type nonMembers struct {
	mu       sync.Mutex
	notified map[string]time.Time
}

// due reports whether a notice to a node is due, and records the notice as sent.
func (s *nonMembers) due(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.notified[id].IsZero() || now.Sub(s.notified[id]) >= removedNoticeInterval {
		if s.notified == nil {
			s.notified = map[string]time.Time{}
		}
		s.notified[id] = now
		return true
	}
	return false
}

// LeaderID returns the id of the leader that this node knows, or "" if it knows none.
func (g *Group) LeaderID() string {
	id, _ := g.replica.Leader()
	return id
}

// LeadingTerm returns the present term if this node leads and serves in it; otherwise ok is false.
func (g *Group) LeadingTerm() (term uint64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term == nil || !started(g.term) || g.closed {
		return 0, false
	}
	return g.number, true
}

// Lead runs f once in each term that this node leads and serves. f's context ends with the leadership; f must
// return soon after, because Lead runs it again only then. Lead returns nil when ctx ends, the group's error
// once the group has failed or is closed, and an error of f unless f reports the end of its context.
func (g *Group) Lead(ctx context.Context, f func(ctx context.Context) error) error {
	for {
		term, err := g.awaitTerm(ctx)
		if err != nil || term == nil {
			return err
		}
		if err := g.leadTerm(ctx, term, f); err != nil {
			return err
		}
		select { // f may have returned before the end of the term
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

// awaitEnd returns when the term is no longer the group's present term, the group is closed, or ctx ends.
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

// awaitTerm returns the next term that serves, or nil if ctx ends first. Its error says that the group has
// failed or is closed.
func (g *Group) awaitTerm(ctx context.Context) (*pipeline.Pipeline, error) {
	for {
		g.mu.Lock()
		term, changed, closed := g.term, g.changed, g.closed
		g.mu.Unlock()
		if ctx.Err() != nil {
			return nil, nil
		}
		if err := g.over(closed); err != nil {
			return nil, err
		}
		if term != nil && started(term) {
			return term, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
