package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// logDir is where the log lies, inside Config.Dir.
const logDir = "log"

// Group is one Raft group on this node. Its methods may be called from any
// goroutine; all errors are *api.Error.
type Group struct {
	config   Config
	identity identity
	replica  *replica.Replica
	tracer   *tracer        // nil = no spans
	stats    pipeline.Stats // of all terms
	opened   chan struct{}  // closed once replica is set

	peers      *transport.Group // nil = a group of one, for ever
	forwards   forwards
	confirming round[struct{}]  // the leader asks the voters
	following  round[readIndex] // a follower asks the leader
	watches    watches          // what the leader knows of the others
	strangers  strangers        // who was told that it is none of them

	removedAt atomic.Uint64 // index of the configuration that a leader said is without this member

	mu      sync.Mutex
	term    *pipeline.Pipeline // of the present term of leadership, nil for none
	number  uint64             // of term
	endTerm context.CancelFunc // ends what runs for term
	changed chan struct{}      // closed when term, its start, the known leader, the membership or closed changes
	closed  bool
	ended   bool // nothing may be started any longer

	running   sync.WaitGroup  // spawn, and what open and leadership start
	life      context.Context // ends when Close has done what needs the others
	endLife   context.CancelFunc
	closeOnce sync.Once
	closeErr  error
}

// Open runs the group in c.Dir; a new directory becomes a new group with this
// node as its only voter. Open returns before the group has a leader: see Ready.
// It refuses, with UNHEALTHY and what to do, when machine and log do not fit; it
// then has changed nothing.
func Open(c Config) (*Group, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	g := &Group{config: c, tracer: newTracer(&c), changed: make(chan struct{}), opened: make(chan struct{})}
	g.life, g.endLife = context.WithCancel(context.Background())
	if err := g.open(); err != nil {
		g.endLife()
		return nil, outward(err)
	}
	return g, nil
}

func (g *Group) open() (err error) {
	c := &g.config
	if g.identity, err = loadIdentity(*c); err != nil {
		return err
	}
	path := filepath.Join(c.Dir, logDir)
	if !g.identity.Founded && !g.identity.Joined {
		// Raft has never run here: what lies there is a founding cut short.
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	log, err := c.Logs.Open(path, c.LogKind)
	if err != nil {
		return damaged(err)
	}
	if err := g.found(log); err != nil {
		return errors.Join(err, log.Close())
	}
	var others replica.Transport // a nil *transport.Group is not a nil Transport
	if c.Transport != nil {
		if g.peers, err = c.Transport.Group(g.identity.Group, g.identity.Incarnation); err != nil {
			return errors.Join(err, log.Close())
		}
		others = g.peers
		g.listen()
	}
	var applies func(entry.Trace, entry.Position, int) func(error)
	if g.tracer != nil {
		applies = g.tracer.apply
	}
	g.replica, err = replica.Open(replica.Config{
		Dir: c.Dir, Group: g.identity.Group, Incarnation: g.identity.Incarnation, ID: g.identity.NodeID,
		Machine: c.Machine, Log: log, Transport: others, Joining: !g.identity.Founded,
		SnapshotBytes: c.SnapshotBytes, TrailingBytes: c.TrailingBytes,
		Heartbeat: c.Heartbeat, Election: c.Election,
		Leadership: g.leadership, Changed: g.noteChange, Trace: applies, Logger: c.Logger,
	})
	if err != nil {
		return err
	}
	if g.peers != nil {
		g.peers.Stage(g.replica.Staging())
	}
	close(g.opened)
	g.running.Go(g.watchFailure)
	if !g.identity.Founded {
		g.running.Go(g.watchJoining)
	}
	return nil
}

// found makes a new directory a new group, once. That it did is recorded before
// raft runs, so that a log which has been used is never founded again.
func (g *Group) found(log raftlog.Store) error {
	if g.identity.Founded {
		return nil
	}
	if g.identity.Joined {
		// What its leader has sent it makes it a member for ever: from here on, an
		// empty log is a lost one.
		last, err := log.LastIndex()
		if err != nil || (last == 0 && g.config.Machine.Applied().Index == 0) {
			return err
		}
	} else if err := g.foundAlone(log); err != nil {
		return err
	}
	g.identity.Founded = true
	return g.identity.save(g.config.Dir)
}

// foundAlone makes this node the group's sole voter: of an empty group, or of what a
// backup has put into the machine. Either may be done again until it is recorded.
func (g *Group) foundAlone(log raftlog.Store) error {
	id := &g.identity
	if !id.Restored {
		return replica.Bootstrap(log, id.NodeID, g.address(), g.config.Machine)
	}
	of := entry.Applied{Group: id.Group, Incarnation: id.Incarnation}
	return replica.BootstrapRestored(g.config.Dir, log, of, id.NodeID, g.address(), g.config.Machine)
}

// watchJoining records that a member which joins has got its first entry.
func (g *Group) watchJoining() {
	if g.replica.Await(g.life, 1) != nil {
		return
	}
	id := g.identity
	id.Founded = true
	if err := id.save(g.config.Dir); err != nil {
		g.replica.Fail(err)
	}
}

// address is where others find this member; in a group of one its name stands
// for it.
func (g *Group) address() string {
	if g.config.Transport == nil {
		return g.identity.NodeID
	}
	return g.config.Transport.Address()
}

// noteChange is replica.Config.Changed.
func (g *Group) noteChange() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.announce()
}

// spawn runs f as a part of the group; false when the group has ended.
func (g *Group) spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return false
	}
	g.running.Go(f)
	return true
}

// leadership opens and ends the pipeline of a term.
func (g *Group) leadership(r *replica.Replica, leads bool, term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term != nil {
		// A replica that fails gives up leadership as well; what waits is owed the
		// reason that matters.
		reason := errNotLeader()
		if r.Err() != nil {
			reason = r.Unhealthy()
		}
		g.term.Stop(reason)
		g.endTerm()
		g.term = nil
	}
	g.announce()
	if !leads || g.closed {
		return
	}
	last, err := r.LastClock()
	if err != nil {
		r.Fail(err)
		return
	}
	env := pipeline.Env{
		Append: func(encoded []byte) pipeline.Future { return r.Append(term, encoded) },
		Now:    g.config.Now,
		Rand:   g.config.Rand,
		Level:  g.config.Level,
	}
	if g.tracer != nil { // a nil *tracer is not a nil Tracer
		env.Tracer = g.tracer
	}
	p := pipeline.Start(pipeline.Config{
		Env:         env,
		Incarnation: g.identity.Incarnation,
		LastClockNs: last,
		First:       g.config.StartTerm(),
		Limits:      g.config.Limits,
		Admit:       g.config.Admit,
		Stats:       &g.stats,
	})
	var leading context.Context
	leading, g.endTerm = context.WithCancel(g.life)
	g.term, g.number = p, term
	g.running.Go(func() { g.watchTerm(r, p) })
	if g.peers != nil {
		g.running.Go(func() { g.steward(leading, p) })
	}
}

// watchTerm tells of the term's start and waits for its end. A term whose first
// op fails, other than by losing leadership, can serve nobody: the replica stops.
func (g *Group) watchTerm(r *replica.Replica, p *pipeline.Pipeline) {
	select {
	case <-p.Started():
		g.mu.Lock()
		g.announce()
		g.mu.Unlock()
	case <-p.Done():
		if err := p.Err(); api.CodeOf(err) != api.LeaderUnavailable {
			r.Fail(err)
		}
	}
	<-p.Done()
}

// watchFailure answers everything that waits once the replica has stopped.
func (g *Group) watchFailure() {
	select {
	case <-g.replica.Failed():
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.term != nil {
			g.term.Stop(g.unavailable())
			g.endTerm()
			g.term = nil
		}
		g.announce()
	case <-g.life.Done():
	}
}

// announce wakes those who wait for a change; g.mu is held.
func (g *Group) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// present is the pipeline of the present term, or why there is none.
func (g *Group) present() (*pipeline.Pipeline, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term == nil {
		return nil, g.unavailable()
	}
	return g.term, nil
}

// unavailable says why the group has no term; g.mu is held.
func (g *Group) unavailable() error {
	switch {
	case g.replica != nil && g.replica.Err() != nil:
		return g.replica.Unhealthy()
	case g.closed:
		return errClosed()
	}
	return errNotLeader()
}

func errNotLeader() error {
	err := api.Errorf(api.LeaderUnavailable, "this node does not lead the group: nothing was written, ask the leader")
	err.RetryAfter = pipeline.MinRetryAfter
	return err
}

func errClosed() error {
	return api.Errorf(api.LeaderUnavailable, "this node is shutting down: nothing was written")
}

// Failed is closed when the group has stopped by itself, because it cannot trust
// its machine or its disk any longer. It must still be closed.
func (g *Group) Failed() <-chan struct{} { return g.replica.Failed() }

// Err is why the group has stopped by itself; nil while it has not.
func (g *Group) Err() error {
	if g.replica.Err() == nil {
		return nil
	}
	return g.replica.Unhealthy()
}

// Applied is the last entry in the machine.
func (g *Group) Applied() entry.Applied { return g.replica.Applied() }

// Snapshot makes the machine durable now and cuts the log.
func (g *Group) Snapshot() error { return outward(g.replica.Snapshot()) }

// handOverTimeout bounds how long Close looks for another leader.
const handOverTimeout = 2 * time.Second

// Close stops admission, waits until what was admitted is answered (or until ctx
// ends: what has not been written then is refused), hands leadership over if
// there is a voter to take it, makes the machine durable and closes the log. It
// returns when nothing of the group runs any longer; an error means that the
// machine may have to replay when it is opened next. A group that has failed is
// only closed: Err has the reason.
func (g *Group) Close(ctx context.Context) error {
	g.closeOnce.Do(func() { g.closeErr = outward(g.shut(ctx)) })
	return g.closeErr
}

func (g *Group) shut(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	term := g.term
	g.announce()
	g.mu.Unlock()
	if term != nil {
		// Refused proposals have their answer; that they were is not an error of
		// Close.
		_ = term.Drain(ctx, errClosed())
		g.bequeath(ctx)
	}
	g.endLife()
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	err := g.replica.Close()
	g.running.Wait()
	return err
}

// bequeath spares the others the wait until they miss a leader that closes. It
// goes after what was admitted, which a new leader would not answer. That nobody
// takes over is no error: they elect one.
func (g *Group) bequeath(ctx context.Context) {
	if g.peers == nil || g.replica.Err() != nil || g.voters() == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := g.handOver(ctx, nil); err != nil {
		g.config.Logger.Info("the group was closed without handing leadership over", "group", g.identity.Group, "error", err)
	}
}

// damaged says of an error of opening the log that this member cannot go on.
// Refusals with a code of their own (another kind of log, a log in use) stay.
func damaged(err error) error {
	var e *api.Error
	if errors.As(err, &e) {
		return err
	}
	return api.Wrap(err, api.Unhealthy, err.Error())
}

// outward makes any error an *api.Error.
func outward(err error) error {
	if err == nil {
		return nil
	}
	var e *api.Error
	if errors.As(err, &e) && e != nil {
		return e
	}
	return api.Wrap(err, api.Internal, err.Error())
}
