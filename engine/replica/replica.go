// Package replica runs one member of a Raft group around a Machine: it recovers, applies entries, takes
// snapshots, and stops at the first inconsistency. It owns the contract of the Machine and the configuration
// of hashicorp/raft. It does not batch, and it does not interpret ops. It may import hashicorp/raft, api,
// durable, engine/entry and engine/image.
package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
)

// These constants are the defaults of Config.
const (
	// DefaultSnapshotBytes bounds the log that a restart after a crash replays, and with it the log on disk.
	DefaultSnapshotBytes = 64 << 20
	// DefaultTrailingBytes is how much of the log before a snapshot's position is kept, so that a replica
	// that was away for a moment needs no snapshot.
	DefaultTrailingBytes = 8 << 20
)

// These constants are raft's timeouts. The heartbeat timeout starts one millisecond too high and is corrected
// soon after the start: raft takes the correction for an expired timer and stands for election at once, with
// all its safety rules in force. So a sole voter leads within milliseconds instead of a second or two. With
// pre-vote, a member that does so while another leads disturbs nobody: the members that hear a leader refuse
// the pre-vote, and no term rises.
const (
	// DefaultHeartbeat and DefaultElection are the defaults of Config.Heartbeat and Election. A follower
	// waits up to twice as long, at random, so the leader's death costs 0.5 to 1 s and an election. Half the
	// default would still be many times the round trip between zones, but a garbage collection or a busy
	// machine can delay a process for longer.
	DefaultHeartbeat = 500 * time.Millisecond
	DefaultElection  = 500 * time.Millisecond
	maxLeaderLease   = 500 * time.Millisecond
	// DefaultCommitTimeout is the default of Config.CommitTimeout.
	DefaultCommitTimeout = 50 * time.Millisecond
	// electionStagger is the time between the first elections of two voters that follow each other in the
	// order of their names. If all voters of a new group stood at once, their votes would be split, and the
	// next round would come up to a second later.
	electionStagger = 25 * time.Millisecond
	never           = 365 * 24 * time.Hour
)

// Config holds the parameters of Open.
type Config struct {
	// Dir holds the snapshot manifest, the announcement of a received snapshot, and in staging/ the parts of
	// snapshots that are being received.
	Dir string
	// Group and Incarnation identify the group and the history of its data.
	Group       string
	Incarnation entry.Incarnation
	// ID is the name of this member in the group.
	ID string
	// Machine is the replicated state machine. The caller closes it, after the Replica.
	Machine Machine
	// Log holds the log, term and vote. The Replica closes it, even if Open fails.
	Log Log
	// Transport reaches the other members; nil = the group has none. The Replica closes it, even if Open
	// fails.
	Transport Transport
	// Joining says that this member has never been part of its group, according to its directory. Machine and
	// log may then both be empty.
	Joining bool
	// Join limits a member that joined with an empty directory; nil = this member is not limited.
	Join *Join
	// Rename gives the group's only voter the name ID. Open refuses it in a group with other members.
	Rename bool
	// A follower stands for election when it has heard no leader for a random time from Heartbeat to twice
	// Heartbeat; 0 = DefaultHeartbeat. Election is the time that a candidate waits for votes; 0 = the longer
	// of DefaultElection and Heartbeat.
	Heartbeat, Election time.Duration
	// A leader tells an idle follower of the last commit after a random time from CommitTimeout to twice CommitTimeout;
	// 0 = DefaultCommitTimeout.
	CommitTimeout time.Duration
	// A snapshot is due when SnapshotBytes bytes have been appended since the last one; 0 =
	// DefaultSnapshotBytes.
	SnapshotBytes int64
	// TrailingBytes is how much of the log before a snapshot's position is kept; 0 = DefaultTrailingBytes,
	// negative = one entry.
	TrailingBytes int64
	// Leadership is called when leadership is gained (with its term) and lost, in order, by one goroutine,
	// possibly before Open returns. Raft waits with the next notice until Leadership returns, so Leadership
	// must not wait for an Append. nil is not called.
	Leadership func(r *Replica, leads bool, term uint64)
	// Changed is called by one goroutine after the known leader or the configuration in the machine has
	// changed; nil is not called.
	Changed func()
	// Trace begins the span of applying an entry with the given number of ops, and returns the function that
	// ends the span. It is called only for entries whose header names a span, and not for entries that were
	// in the log when the Replica was opened, because their traces have ended. nil = no spans.
	Trace func(of entry.Trace, at entry.Position, ops int) (end func(error))
	// Logger receives raft's log lines; nil = slog.Default().
	Logger *slog.Logger
}

// Replica is one running member.
type Replica struct {
	dir           string
	id            raft.ServerID
	identity      entry.Applied // group and incarnation
	joining       bool
	join          *joinGate // nil = not limited
	machine       Machine
	journal       *journal
	snapshots     *snapshots
	raft          *raft.Raft
	transport     raft.Transport
	wrapped       *raftTransport // wraps transport; nil without Config.Transport
	logger        *slog.Logger
	trailingBytes int64
	trace         func(entry.Trace, entry.Position, int) func(error) // nil = no spans
	replayed      uint64                                             // last index of the log when it was opened
	inflight      inflight
	verifying     verifier
	applyWaiters  indexWaiters
	changed       chan struct{} // a token causes one call of Config.Changed
	vote          atomic.Pointer[vote]

	failing sync.Once
	failed  chan struct{}
	cause   error // set before failed is closed

	snapshotting sync.Mutex // one snapshot at a time
	reloading    sync.Mutex // held while reload changes raft's configuration
	closing      chan struct{}
	running      sync.WaitGroup // the goroutines that start and scheduleElection started
	closeOnce    sync.Once
	closeErr     error
}

// Open compares machine and log, refuses to start if they do not fit together (with an *api.Error UNHEALTHY
// that gives the reason and the remedy), and starts raft.
func Open(c Config) (*Replica, error) {
	r, err := prepare(&c)
	if err != nil {
		return nil, err
	}
	if err := r.start(c); err != nil {
		return nil, errors.Join(err, c.Log.Close(), r.closeTransport())
	}
	return r, nil
}

// prepare sets the defaults of c and returns a replica that has read the end of its log. After an error it has closed
// the log and the transport.
func prepare(c *Config) (_ *Replica, err error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.SnapshotBytes == 0 {
		c.SnapshotBytes = DefaultSnapshotBytes
	}
	if c.TrailingBytes == 0 {
		c.TrailingBytes = DefaultTrailingBytes
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = DefaultHeartbeat
	}
	if c.CommitTimeout == 0 {
		c.CommitTimeout = DefaultCommitTimeout
	}
	if c.Election == 0 {
		c.Election = max(DefaultElection, c.Heartbeat)
	}
	r := &Replica{
		dir:           c.Dir,
		id:            raft.ServerID(c.ID),
		joining:       c.Joining,
		identity:      entry.Applied{Group: c.Group, Incarnation: c.Incarnation},
		machine:       c.Machine,
		logger:        c.Logger,
		trailingBytes: max(0, c.TrailingBytes),
		trace:         c.Trace,
		failed:        make(chan struct{}),
		closing:       make(chan struct{}),
		changed:       make(chan struct{}, 1),
	}
	r.inflight.idle.L = &r.inflight.mu
	if c.Transport != nil {
		r.wrapped = newRaftTransport(c.Transport, r.Err)
		r.transport = c.Transport
	} else {
		_, r.transport = raft.NewInmemTransport(raft.ServerAddress(c.ID))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Log.Close(), r.closeTransport())
		}
	}()
	if r.journal, err = newJournal(c.Log, c.SnapshotBytes, r.fail); err != nil {
		return nil, err
	}
	if r.replayed, err = c.Log.LastIndex(); err != nil {
		return nil, fmt.Errorf("last index of the log: %w", err)
	}
	r.journal.last.Store(r.replayed)
	r.snapshots = newSnapshots(c.Dir, c.Machine, r.identity, r.fail, c.Logger)
	return r, nil
}

// start starts raft and the goroutines around it.
func (r *Replica) start(c Config) error {
	gained := make(chan bool)
	conf := raftConfig(c, gained)
	if err := r.reconcile(); err != nil {
		return err
	}
	var err error
	if r.join, err = r.newJoinGate(c.Join); err != nil {
		return err
	}
	if r.join != nil {
		conf.HeartbeatTimeout, conf.ElectionTimeout = never, never // until awaitVotes
	}
	if c.Rename {
		if err := r.rename(); err != nil {
			return err
		}
	}
	seen := r.transport
	if r.wrapped != nil {
		r.wrapped.join = r.join
		seen = r.wrapped
	}
	if r.raft, err = raft.NewRaft(conf, fsm{r}, r.journal, r.journal, r.snapshots, seen); err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	if err := r.Err(); err != nil {
		return errors.Join(err, r.raft.Shutdown().Error())
	}
	leaders := make(chan raft.Observation, 1)
	r.raft.RegisterObserver(raft.NewObserver(leaders, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	}))
	r.running.Go(func() { r.watchLeadership(gained, c.Leadership) })
	r.running.Go(func() { r.watchChanges(leaders, c.Changed) })
	r.running.Go(r.snapshotWhenDue)
	r.running.Go(r.stopWhenFailed)
	if r.wrapped != nil {
		r.wrapped.members = r.Members
		r.running.Go(func() { r.wrapped.pump(r.closing) })
	}
	if r.join != nil {
		r.running.Go(func() { r.awaitVotes(c) })
		return nil
	}
	return r.scheduleElection(c.Heartbeat)
}

// scheduleElection makes this member stand for its first election after a delay that depends on its rank.
func (r *Replica) scheduleElection(heartbeat time.Duration) error {
	begin := func() error {
		return r.reload(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout = heartbeat })
	}
	delay := r.rank() * electionStagger
	if delay == 0 {
		if err := begin(); err != nil {
			return errors.Join(fmt.Errorf("start raft: %w", err), r.halt())
		}
		return nil
	}
	r.running.Go(func() {
		select {
		case <-time.After(delay):
			if err := begin(); err != nil {
				r.fail(fmt.Errorf("start raft: %w", err))
			}
		case <-r.closing:
		}
	})
	return nil
}

// reload changes raft's configuration. Two changes at a time could undo each other, because raft takes the whole.
func (r *Replica) reload(change func(*raft.ReloadableConfig)) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	c := r.raft.ReloadableConfig()
	change(&c)
	return r.raft.ReloadConfig(c)
}

// rank counts the voters whose names sort before this member's.
func (r *Replica) rank() (before time.Duration) {
	for _, p := range r.Members() {
		if p.Voter && p.ID < string(r.id) {
			before++
		}
	}
	return before
}

func raftConfig(c Config, gained chan<- bool) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.ID)
	conf.HeartbeatTimeout = c.Heartbeat + time.Millisecond
	conf.ElectionTimeout = c.Election + time.Millisecond
	// The lease is shorter than the followers' timeout, so that a leader that has lost its followers steps
	// down before they elect another.
	conf.LeaderLeaseTimeout = min(maxLeaderLease, c.Heartbeat/2)
	conf.CommitTimeout = c.CommitTimeout
	conf.NotifyCh = gained
	conf.Logger = NewLogger(c.Logger)
	conf.ShutdownOnRemove = false
	conf.NoLegacyTelemetry = true
	// The machine is its own snapshot; reconcile has checked that it fits.
	conf.NoSnapshotRestoreOnStart = true
	// Snapshots are due by bytes, which raft does not count.
	conf.SnapshotInterval, conf.SnapshotThreshold = never, math.MaxUint64
	return conf
}

// watchLeadership calls notify for each gain or loss of leadership until the replica is closed.
func (r *Replica) watchLeadership(gained <-chan bool, notify func(*Replica, bool, uint64)) {
	for {
		select {
		case leads := <-gained:
			if notify != nil {
				notify(r, leads, r.raft.CurrentTerm())
			}
		case <-r.closing:
			return
		}
	}
}

// watchChanges calls notify after each change of leader or configuration. Raft may drop an observation while
// one is pending; notify then reads the newest state anyway.
func (r *Replica) watchChanges(leaders <-chan raft.Observation, notify func()) {
	for {
		select {
		case <-leaders:
		case <-r.changed:
		case <-r.closing:
			return
		}
		if notify != nil {
			notify()
		}
	}
}

// notifyChange causes a call of Config.Changed. It never blocks.
func (r *Replica) notifyChange() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Fail stops the replica because of an error found outside of it.
func (r *Replica) Fail(err error) { r.fail(err) }

// fail stops the replica. From then on nothing is applied or written, and all waiting requests are answered.
// Only the first error is kept.
func (r *Replica) fail(err error) {
	r.failing.Do(func() {
		r.cause = durable.Explain(err, r.dir)
		close(r.failed)
		r.logger.Error("the replica has stopped", "group", r.identity.Group, "error", r.cause)
	})
}

// stopWhenFailed shuts raft down after a failure, once the requests in flight have been answered, so that
// another member can take over.
func (r *Replica) stopWhenFailed() {
	select {
	case <-r.failed:
		r.inflight.close()
		r.raft.Shutdown()
	case <-r.closing:
	}
}

// Failed returns a channel that is closed when the replica has stopped by itself.
func (r *Replica) Failed() <-chan struct{} { return r.failed }

// Err returns the error that stopped the replica, or nil while it runs.
func (r *Replica) Err() error {
	select {
	case <-r.failed:
		return r.cause
	default:
		return nil
	}
}

// Unhealthy returns the error for callers after the replica has stopped. Err must not be nil.
func (r *Replica) Unhealthy() error {
	return api.Wrap(r.cause, api.Unhealthy, "this replica has stopped ("+r.cause.Error()+"): the outcome of requests under way is unknown; see its log, then restart it or rebuild it")
}

// Close refuses new requests and waits for those in flight, makes the machine durable unless the replica has
// failed, and stops raft. It closes everything even after an error, and returns the errors joined.
func (r *Replica) Close() error {
	r.closeOnce.Do(func() {
		r.inflight.close()
		var err error
		if r.Err() == nil {
			err = r.persistMachine()
		}
		r.closeErr = errors.Join(err, r.halt(), r.journal.Close())
	})
	return r.closeErr
}

// persistMachine leaves little to replay at the next start. It takes a snapshot, which truncates the log,
// only if at least a quarter of the bytes that make one due have been appended since the last snapshot.
func (r *Replica) persistMachine() error {
	if r.journal.sinceSnapshot() >= r.journal.limit/4 {
		return r.Snapshot()
	}
	if err := r.machine.Flush(); err != nil {
		return fmt.Errorf("flush the machine: %w", err)
	}
	return nil
}

// halt stops raft and the goroutines around it.
func (r *Replica) halt() error {
	err := r.raft.Shutdown().Error()
	close(r.closing)
	r.running.Wait()
	return errors.Join(err, r.closeTransport())
}

func (r *Replica) closeTransport() error {
	if t, ok := r.transport.(raft.WithClose); ok {
		return t.Close()
	}
	return nil
}
