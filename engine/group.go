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

// logDir is the directory of the log, inside Config.Dir.
const logDir = "log"

// Group is one Raft group on this node. Its methods may be called from any goroutine. All errors are
// *api.Error, except that Lead returns its function's error.
type Group struct {
	config   Config
	identity identity
	replica  *replica.Replica
	tracer   *tracer        // nil = no spans
	stats    pipeline.Stats // of all terms
	opened   chan struct{}  // closed once replica is set

	peers      *transport.Group // nil in a group without a transport
	forwarding forwarding
	confirming sharedCall[struct{}]  // the leader confirms its term with the voters
	following  sharedCall[readIndex] // a follower asks the leader for a read index
	contacts   contacts              // the last answer of each other member to this leader
	nonMembers nonMembers            // nodes that were told that they are not members

	removedAt atomic.Uint64 // configuration index in a leader's last notice of this member's removal
	joining   atomic.Bool   // askPosition is running
	joinedAt  atomic.Uint64 // index of the position at which this member joined; 0 = it is not known, or it did not join
	recording sync.Mutex    // held while the group changes its record in group.json

	mu      sync.Mutex
	term    *pipeline.Pipeline // of the present term of leadership; nil if this node does not lead
	number  uint64             // of term
	endTerm context.CancelFunc // ends the work that runs for term
	changed chan struct{}      // closed and replaced when one of these changes: term, whether it has started, the known leader, the members, closed, the replica's health
	closed  bool
	ended   bool // no goroutine may be started any more

	running   sync.WaitGroup  // the goroutines of spawn, open and leadership
	life      context.Context // ends when Close no longer needs the other members
	endLife   context.CancelFunc
	closeOnce sync.Once
	closeErr  error
}

// Open runs the group in c.Dir. A new directory becomes a new group with this node as its only voter or, with
// c.Join, a future member of an existing group. Open returns before the group has a leader (see Ready). If
// machine and log do not fit together, Open changes neither and returns UNHEALTHY with the remedy. It returns
// CONFLICT for a directory of another group, node, history or kind of log, and for one that is in use, and
// VALIDATION_ERROR for an invalid Config.
func Open(c Config) (*Group, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	g := &Group{config: c, tracer: newTracer(&c), changed: make(chan struct{}), opened: make(chan struct{})}
	g.life, g.endLife = context.WithCancel(context.Background())
	if err := g.open(); err != nil {
		g.endLife()
		return nil, toAPIError(err)
	}
	return g, nil
}

func (g *Group) open() (err error) {
	c := &g.config
	if g.identity, err = loadIdentity(*c); err != nil {
		return err
	}
	renamed := c.NodeID != "" && g.identity.NodeID != c.NodeID
	if renamed {
		// group.json gets the name once the log has it, so that a crash between the two writes repeats the
		// renaming.
		g.identity.NodeID = c.NodeID
	}
	path := filepath.Join(c.Dir, logDir)
	if !g.identity.Founded && !g.identity.Joined {
		// Raft has never run here, so the directory can only hold an interrupted bootstrap.
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	log, err := c.Logs.Open(path, c.LogKind)
	if err != nil {
		return damaged(err)
	}
	if err := g.bootstrap(log); err != nil {
		return errors.Join(err, log.Close())
	}
	var others replica.Transport // a nil *transport.Group is not a nil Transport
	if c.Transport != nil {
		if g.peers, err = c.Transport.Group(g.identity.Group, g.identity.Incarnation); err != nil {
			return errors.Join(err, log.Close())
		}
		others = g.peers
		g.registerHandlers()
	}
	var applies func(entry.Trace, entry.Position, int) func(error)
	if g.tracer != nil {
		applies = g.tracer.apply
	}
	g.replica, err = replica.Open(replica.Config{
		Dir: c.Dir, Group: g.identity.Group, Incarnation: g.identity.Incarnation, ID: g.identity.NodeID,
		Machine: c.Machine, Log: log, Transport: others, Joining: !g.identity.Founded, Join: g.join(), Rename: renamed,
		SnapshotBytes: c.SnapshotBytes, TrailingBytes: c.TrailingBytes,
		Heartbeat: c.Heartbeat, Election: c.Election, CommitTimeout: c.CommitTimeout,
		Leadership: g.leadership, Changed: g.replicaChanged, Trace: applies, Logger: c.Logger,
	})
	if err != nil {
		return err
	}
	if renamed {
		if err := g.identity.save(c.Dir); err != nil {
			return errors.Join(err, g.replica.Close())
		}
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

// bootstrap creates the group's first entry in a new directory, once. It records Founded before raft runs, so
// that a log that has been used is never bootstrapped again. In the directory of a joining member, bootstrap
// creates nothing and records Founded once the first entry has arrived.
func (g *Group) bootstrap(log raftlog.Store) error {
	if g.identity.Founded {
		return nil
	}
	if g.identity.Joined {
		// The entries that the leader has sent make this node a member for good. From now on an empty log is
		// a lost log.
		last, err := log.LastIndex()
		if err != nil || (last == 0 && g.config.Machine.Applied().Index == 0) {
			return err
		}
	} else if err := g.bootstrapAlone(log); err != nil {
		return err
	}
	g.identity.Founded = true
	return g.identity.save(g.config.Dir)
}

// bootstrapAlone makes this node the sole voter of an empty group, or of a group whose machine was filled
// from a backup. Either can be repeated until Founded is recorded.
func (g *Group) bootstrapAlone(log raftlog.Store) error {
	id := &g.identity
	if !id.Restored {
		return replica.Bootstrap(log, id.NodeID, g.address(), g.config.Machine)
	}
	of := entry.Applied{Group: id.Group, Incarnation: id.Incarnation}
	return replica.BootstrapRestored(g.config.Dir, log, of, id.NodeID, g.address(), g.config.Machine)
}

// watchJoining records Founded once a joining member has applied its first entry.
func (g *Group) watchJoining() {
	if g.replica.Await(g.life, 1) != nil {
		return
	}
	if err := g.record(func(id *identity) { id.Founded = true }); err != nil {
		g.replica.Fail(err)
	}
}

// address returns the address of this member for others. A group without a transport uses the node id.
func (g *Group) address() string {
	if g.config.Transport == nil {
		return g.identity.NodeID
	}
	return g.config.Transport.Address()
}

// replicaChanged implements replica.Config.Changed.
func (g *Group) replicaChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notifyChange()
}

// spawn runs f on a goroutine of the group. It returns false if the group has ended.
func (g *Group) spawn(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return false
	}
	g.running.Go(f)
	return true
}

// leadership implements replica.Config.Leadership: it ends the pipeline of the last term and, if this node
// leads, starts the next one.
func (g *Group) leadership(r *replica.Replica, leads bool, term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term != nil {
		// A replica that fails also gives up leadership, but its callers need the first cause.
		reason := errNotLeader()
		if r.Err() != nil {
			reason = r.Unhealthy()
		}
		g.term.Stop(reason)
		g.endTerm()
		g.term = nil
	}
	g.notifyChange()
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
		g.running.Go(func() { g.maintain(leading, p) })
	}
}

// watchTerm wakes the waiting goroutines at the term's start and waits for its end. If the term's first op
// fails for another reason than lost leadership, the term can serve nobody, so watchTerm stops the replica.
func (g *Group) watchTerm(r *replica.Replica, p *pipeline.Pipeline) {
	select {
	case <-p.Started():
		g.mu.Lock()
		g.notifyChange()
		g.mu.Unlock()
	case <-p.Done():
		if err := p.Err(); api.CodeOf(err) != api.LeaderUnavailable {
			r.Fail(err)
		}
	}
	<-p.Done()
}

// watchFailure ends the term once the replica has stopped, which answers all waiting callers.
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
		g.notifyChange()
	case <-g.life.Done():
	}
}

// notifyChange wakes the goroutines that wait for a change. The caller holds g.mu.
func (g *Group) notifyChange() {
	close(g.changed)
	g.changed = make(chan struct{})
	if g.config.OnChange != nil {
		g.config.OnChange()
	}
}

// currentTerm returns the pipeline of the present term, or the reason why there is none.
func (g *Group) currentTerm() (*pipeline.Pipeline, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.term == nil {
		return nil, g.unavailable()
	}
	return g.term, nil
}

// unavailable returns the reason why the group has no term. The caller holds g.mu.
func (g *Group) unavailable() error {
	if g.replica != nil {
		if err := g.over(g.closed); err != nil {
			return err
		}
	}
	return errNotLeader()
}

// over returns the error that ends a wait for a term: the group has failed, or it is closed. It is nil while there may be
// a term.
func (g *Group) over(closed bool) error {
	if err := g.Err(); err != nil {
		return err
	}
	if closed {
		return errClosed()
	}
	return nil
}

func errNotLeader() error {
	err := api.Errorf(api.LeaderUnavailable, "this node does not lead the group: nothing was written, ask the leader")
	err.RetryAfter = pipeline.MinRetryAfter
	return err
}

func errClosed() error {
	return api.Errorf(api.LeaderUnavailable, "this node is shutting down: nothing was written")
}

// Failed returns a channel that is closed when the group has stopped by itself, because it can no longer
// trust its machine or its disk. The caller must still close the group.
func (g *Group) Failed() <-chan struct{} { return g.replica.Failed() }

// Err returns the error that stopped the group, or nil while it runs.
func (g *Group) Err() error {
	if g.replica.Err() == nil {
		return nil
	}
	return g.replica.Unhealthy()
}

// Incarnation returns the incarnation of the group, also before this member has applied an entry.
func (g *Group) Incarnation() entry.Incarnation { return g.identity.Incarnation }

// Applied returns the last entry that the machine has applied.
func (g *Group) Applied() entry.Applied { return g.replica.Applied() }

// Snapshot makes the machine durable and truncates the log.
func (g *Group) Snapshot() error { return toAPIError(g.replica.Snapshot()) }

// transferTimeout bounds the transfer of leadership to another voter.
const transferTimeout = 2 * time.Second

// Close stops admission and waits until the admitted ops are answered; when ctx ends, it refuses those that
// are not in an entry yet. Then it transfers leadership if another voter can take it, makes the machine
// durable and closes the log. It returns when no goroutine of the group runs any more. An error means that
// the machine may have to replay entries when it is opened next. If the group has failed, Close makes nothing
// durable and only closes; Err returns the reason of the failure.
func (g *Group) Close(ctx context.Context) error {
	g.closeOnce.Do(func() { g.closeErr = toAPIError(g.shut(ctx)) })
	return g.closeErr
}

func (g *Group) shut(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	term := g.term
	g.notifyChange()
	g.mu.Unlock()
	if term != nil {
		// Refused proposals have their answers; a refusal is not an error of Close.
		_ = term.Drain(ctx, errClosed())
		g.transferOnClose(ctx)
	}
	g.endLife()
	g.mu.Lock()
	g.ended = true
	g.mu.Unlock()
	err := g.replica.Close()
	g.running.Wait()
	return err
}

// transferOnClose spares the other members the election timeout when the leader closes. It runs after the
// admitted ops, because a new leader would not answer them. A failed transfer is no error, because the others
// then elect a leader.
func (g *Group) transferOnClose(ctx context.Context) {
	if g.peers == nil || g.replica.Err() != nil || g.voters() == 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if err := g.transferToBest(ctx, nil); err != nil {
		g.config.Logger.Info("the group closed without transferring its leadership", "group", g.identity.Group, "error", err)
	}
}

// damaged turns an error of opening the log into UNHEALTHY. Errors with a code of their own (another kind of
// log, a log in use) stay as they are.
func damaged(err error) error {
	var e *api.Error
	if errors.As(err, &e) {
		return err
	}
	return api.Wrap(err, api.Unhealthy, err.Error())
}

// toAPIError returns the *api.Error that err is or wraps. It turns any other error into INTERNAL.
func toAPIError(err error) error {
	if err == nil {
		return nil
	}
	var e *api.Error
	if errors.As(err, &e) && e != nil {
		return e
	}
	return api.Wrap(err, api.Internal, err.Error())
}
