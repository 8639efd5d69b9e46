// Package replica runs one member of a Raft group around a Machine: it recovers,
// applies, takes snapshots, and stops at the first thing it cannot trust. It owns
// the contract of the Machine and everything hashicorp/raft needs to be told. It
// does not batch, and knows no op. It may import hashicorp/raft, api and
// engine/entry.
package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/durable"
	"github.com/corvo/corvo/engine/entry"
)

// The defaults of Config.
const (
	// DefaultSnapshotBytes bounds what a restart after a crash replays, and with
	// it the log on disk.
	DefaultSnapshotBytes = 64 << 20
	// DefaultTrailingBytes is what stays in the log behind a snapshot, so that a
	// replica that was away for a moment needs no image.
	DefaultTrailingBytes = 8 << 20
)

// Raft's times. The heartbeat timeout is set a millisecond high at first and put
// right soon after: raft takes the change for an expired timer and stands for
// election at once, with all its safety in place. A sole voter leads within
// milliseconds instead of a second or two. With pre-vote a member that does so
// while another leads disturbs nobody: those who hear of a leader refuse it, and
// no term rises.
const (
	// DefaultHeartbeat and DefaultElection are the defaults of Config.Heartbeat and
	// Election. A follower waits up to twice as long, at random: the leader's death
	// costs 0.5 to 1 s and an election. Half as much would still be ten times what a
	// round trip between zones takes, but not what a collection or a busy machine can
	// hold a process up.
	DefaultHeartbeat = 500 * time.Millisecond
	DefaultElection  = 500 * time.Millisecond
	maxLeaderLease   = 500 * time.Millisecond
	// How often an idle leader tells followers its commit index. A group that can
	// never have any is left alone.
	commitTimeout     = 50 * time.Millisecond
	soleCommitTimeout = time.Second
	// kickStep is how much later each voter stands for its first election than the
	// one before it, in the order of their names: were all to stand at once when a
	// group starts, their votes would be split and the next round is a second away.
	kickStep = 25 * time.Millisecond
	never    = 365 * 24 * time.Hour
)

// Config is what a Replica is made of.
type Config struct {
	// Dir holds the snapshot manifest, and snapshots being received in staging/.
	Dir string
	// Group and Incarnation name the group and the history of its data.
	Group       string
	Incarnation entry.Incarnation
	// ID is this member's name in the group.
	ID string
	// Machine is the state; the caller closes it, after the Replica.
	Machine Machine
	// Log holds the log, term and vote; the Replica closes it, also when Open
	// fails.
	Log Log
	// Transport reaches the other members; nil for a group of one. The Replica
	// closes it, also when Open fails.
	Transport Transport
	// Joining says that the member was never part of its group as far as its
	// directory knows: machine and log may both be empty.
	Joining bool
	// Heartbeat is how long a follower hears nothing of a leader before it stands
	// for election, Election how long a candidate waits for votes; 0 =
	// DefaultHeartbeat, DefaultElection.
	Heartbeat, Election time.Duration
	// SnapshotBytes is how much log makes a snapshot due; 0 =
	// DefaultSnapshotBytes.
	SnapshotBytes int64
	// TrailingBytes is how much log is kept behind a snapshot; 0 =
	// DefaultTrailingBytes, negative = none.
	TrailingBytes int64
	// Leadership is called when leadership is gained (with its term) and lost, in
	// order, by one goroutine, maybe before Open returns. Raft waits for it: it
	// must not wait for an Append.
	Leadership func(r *Replica, leads bool, term uint64)
	// Changed is called after the leader that this replica knows of has changed, or
	// the configuration in its machine, by one goroutine; nil = nobody asks.
	Changed func()
	// Trace begins the span of an entry of so many ops that is about to be applied
	// and whose header names a span; what it returns ends it. It is not asked for
	// entries that lay in the log when the Replica was opened: their traces are
	// over. nil = no spans.
	Trace func(of entry.Trace, at entry.Position, ops int) (end func(error))
	// Logger gets what raft says; nil = slog.Default().
	Logger *slog.Logger
}

// Replica is one running member.
type Replica struct {
	dir           string
	id            raft.ServerID
	identity      entry.Applied // group and incarnation
	joining       bool
	machine       Machine
	journal       *journal
	snapshots     *snapshots
	raft          *raft.Raft
	transport     raft.Transport
	wire          *wire // around transport; nil in a group of one
	logger        *slog.Logger
	trailingBytes int64
	trace         func(entry.Trace, entry.Position, int) func(error) // nil = no spans
	replayed      uint64                                             // the log's last index when it was opened
	flying        flights
	verifying     verifier
	awaiting      awaiting
	changed       chan struct{} // a token for Config.Changed

	failing sync.Once
	failed  chan struct{}
	cause   error // set before failed is closed

	snapshotting sync.Mutex // one snapshot at a time
	closing      chan struct{}
	running      sync.WaitGroup // the goroutines of start
	closeOnce    sync.Once
	closeErr     error
}

// Open compares machine and log, refuses if they do not fit (an *api.Error
// UNHEALTHY that says why and what to do), and starts raft.
func Open(c Config) (_ *Replica, err error) {
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
	r.flying.landed.L = &r.flying.mu
	if c.Transport != nil {
		r.wire = newWire(c.Transport, r.Err)
		r.transport = c.Transport
	} else {
		_, r.transport = raft.NewInmemTransport(raft.ServerAddress(c.ID))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Log.Close(), r.hangUp())
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
	if err := r.start(c); err != nil {
		return nil, err
	}
	return r, nil
}

// start runs raft and the goroutines around it.
func (r *Replica) start(c Config) error {
	gained := make(chan bool)
	conf := raftConfig(c, gained)
	if err := r.reconcile(); err != nil {
		return err
	}
	seen := r.transport
	if r.wire != nil {
		seen = r.wire
	}
	var err error
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
	if r.wire != nil {
		r.running.Go(func() { r.wire.pump(r.closing) })
	}
	return r.kick(c.Heartbeat)
}

// kick has this member stand for election when its turn has come.
func (r *Replica) kick(heartbeat time.Duration) error {
	now := r.raft.ReloadableConfig()
	now.HeartbeatTimeout = heartbeat
	delay := r.rank() * kickStep
	if delay == 0 {
		if err := r.raft.ReloadConfig(now); err != nil {
			return errors.Join(fmt.Errorf("start raft: %w", err), r.halt())
		}
		return nil
	}
	r.running.Go(func() {
		select {
		case <-time.After(delay):
			if err := r.raft.ReloadConfig(now); err != nil {
				r.fail(fmt.Errorf("start raft: %w", err))
			}
		case <-r.closing:
		}
	})
	return nil
}

// rank is how many voters' names come before this member's.
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
	// Shorter than what followers wait, so that a leader they have lost has gone
	// before they elect another.
	conf.LeaderLeaseTimeout = min(maxLeaderLease, c.Heartbeat/2)
	conf.CommitTimeout = commitTimeout
	if c.Transport == nil {
		conf.CommitTimeout = soleCommitTimeout
	}
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

// Found writes the first entry of a new group into an empty log: its membership,
// with member id, at an address, as the sole voter. The machine must be empty.
func Found(log Log, id, address string, machine Machine) error {
	if at := machine.Applied(); at.Index > 0 {
		return refuse("the store holds group %q up to entry %d, and a new group was to be founded on it", at.Group, at.Index)
	}
	at, transport := raft.NewInmemTransport(raft.ServerAddress(address))
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(id)
	members := raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: conf.LocalID, Address: at}}}
	if err := raft.BootstrapCluster(conf, log, log, raft.NewDiscardSnapshotStore(), transport, members); err != nil {
		return fmt.Errorf("found the group: %w", err)
	}
	return nil
}

// watchLeadership passes raft's word on until raft ends.
func (r *Replica) watchLeadership(gained <-chan bool, tell func(*Replica, bool, uint64)) {
	for {
		select {
		case leads := <-gained:
			if tell != nil {
				tell(r, leads, r.raft.CurrentTerm())
			}
		case <-r.closing:
			return
		}
	}
}

// watchChanges tells of each change of leader or configuration. Observations
// may be dropped while one waits, whose receiver then reads what is newest.
func (r *Replica) watchChanges(leaders <-chan raft.Observation, tell func()) {
	for {
		select {
		case <-leaders:
		case <-r.changed:
		case <-r.closing:
			return
		}
		if tell != nil {
			tell()
		}
	}
}

// noteChange has Config.Changed called; it never waits.
func (r *Replica) noteChange() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Fail stops the replica for a reason found outside of it.
func (r *Replica) Fail(err error) { r.fail(err) }

// fail stops the replica. Nothing is applied or written from here on, and all
// that waits is answered; the first cause stays.
func (r *Replica) fail(err error) {
	r.failing.Do(func() {
		r.cause = durable.Explain(err, r.dir)
		close(r.failed)
		r.logger.Error("the replica has stopped", "group", r.identity.Group, "error", r.cause)
	})
}

// stopWhenFailed ends raft's part after a failure, once what is under way has
// been answered, so that another member can take over.
func (r *Replica) stopWhenFailed() {
	select {
	case <-r.failed:
		r.flying.close()
		r.raft.Shutdown()
	case <-r.closing:
	}
}

// Failed is closed when the replica has stopped by itself.
func (r *Replica) Failed() <-chan struct{} { return r.failed }

// Err is why the replica has stopped; nil while it has not.
func (r *Replica) Err() error {
	select {
	case <-r.failed:
		return r.cause
	default:
		return nil
	}
}

// Unhealthy is what callers are told of Err, which must not be nil.
func (r *Replica) Unhealthy() error {
	return api.Wrap(r.cause, api.Unhealthy, "this replica has stopped ("+r.cause.Error()+"): the outcome of requests under way is unknown; see its log, then restart it or rebuild it")
}

// Close waits for what is under way, makes the machine durable and stops raft.
// The caller has stopped calling Append. Its error is the first of these that
// failed; everything is closed nevertheless.
func (r *Replica) Close() error {
	r.closeOnce.Do(func() {
		r.flying.close()
		var err error
		if r.Err() == nil {
			err = r.settle()
		}
		r.closeErr = errors.Join(err, r.halt(), r.journal.Close())
	})
	return r.closeErr
}

// settle leaves nothing to replay. The log is cut only if that is worth it.
func (r *Replica) settle() error {
	if r.journal.since() >= r.journal.limit/4 {
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
	return errors.Join(err, r.hangUp())
}

func (r *Replica) hangUp() error {
	if t, ok := r.transport.(raft.WithClose); ok {
		return t.Close()
	}
	return nil
}
