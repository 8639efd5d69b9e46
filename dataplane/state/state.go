// Package state is a shard's truth: a Pebble store of jobs, queues, keys and
// what derives from them (ready order, timers, counters, the feed). Ops change
// it through a Tx, one per log entry; everybody else reads. It owns every key
// layout (keys.go) and knows no op. It imports dataplane/job, engine/entry and
// Pebble; on the data plane nobody else imports Pebble.
package state

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
)

// Options are what a store needs besides its directory.
type Options struct {
	FS     vfs.FS  // nil: the disk
	Shared *Shared // caches shared by the stores of a host; nil: small ones of its own

	// MemTableBytes bounds the writes held in memory before they go to disk;
	// 0 means DefaultMemTableBytes. A host of many stores wants less.
	MemTableBytes int

	wal       bool // keep Pebble's own log, unsynced: only to measure what it would cost
	headsKept int  // 0 means headsKept; less in tests

	laneChangesKept int // 0 means laneChangesKept; less in tests

	// 0 means MaxOutboxOps and MaxOutboxBytes; less in tests.
	outboxOps, outboxBytes uint64
}

// Hooks are called by the applying goroutine after a commit is visible to
// readers, and after Restore for everything there is. They must not block and
// must not call back into a Tx.
type Hooks struct {
	// OnReady names a queue in which the commit made jobs fetchable (arrival,
	// promotion, freed or raised concurrency, resume), with how many may be
	// fetched now.
	OnReady func(queue string, fetchable int)
	// OnTimer says that the commit set timers of the class, the earliest of them
	// at dueNs.
	OnTimer func(class TimerClass, dueNs int64)
	// OnReplenish says that the rate limits of queues keep jobs, the first of them
	// until dueNs.
	OnReplenish func(dueNs int64)
	// OnClearing says that something has changed in a queue whose jobs are being
	// removed.
	OnClearing func()
	// OnFeed says that the feed has grown.
	OnFeed func()
	// OnUsage says that there are new usage rows.
	OnUsage func()
	// OnAudit says that there are new audit records.
	OnAudit func()
	// OnKeys says that API keys, or what they may do, were made, changed or removed.
	OnKeys func()
	// OnResources says that resources were declared, changed or taken back.
	OnResources func()
	// OnGate says that a gate may have opened that jobs wait at, or that another came
	// to one.
	OnGate func()
	// OnBulk says that something has changed about a bulk operation.
	OnBulk func()
	// OnOutbox says that there are new ops for another shard.
	OnOutbox func()
}

// Store is one shard's state. One goroutine applies (Begin, Commit,
// PutConfiguration, Restore); any number may read beside it.
//
// Who owns what: the applying goroutine alone touches the caches (queues, keys,
// outboxes, inboxes, leases, tx, scratch) and reads gen, and what is recent in it, without
// a lock, being the only one to change them.
// Readers hold mu for reading while they use gen, so that Restore, which holds
// it for writing just to switch, cannot close the store under them; apply never
// takes mu. publish keeps a batch and the head it carries together for
// Snapshot: a commit holds it while it writes.
type Store struct {
	dir       string
	fs        vfs.FS
	options   Options
	ownShared bool
	hooks     Hooks

	mu     sync.RWMutex
	gen    *generation
	closed bool

	publish       sync.Mutex
	head          atomic.Pointer[Head] // committed; never changed once it is here
	configuration atomic.Pointer[configuration]
	keysRead      atomic.Pointer[keyring] // committed API keys, for readers
	outboxesRead  atomic.Pointer[[]OutboxState]
	bookRead      atomic.Pointer[Book] // committed resources, for readers
	gauges        sync.Map             // queue name -> *gauge
	floors        [timerClasses]timerFloor
	replenish     replenishments
	clearings     clearings
	bulkNews      bulkNews
	gates         gates
	images        atomic.Uint64 // names image directories
	failure       failure

	queues      map[string]*queue
	keys        map[string]*Key
	outboxes    map[uint32]*Outbox // by the shard they go to
	inboxes     map[uint32]*Inbox  // by the shard they come from
	laneJournal laneJournal

	resources map[resourceName]*Resource
	newest    job.ID // no stored job or forward has a greater id
	leases    leases // of the active jobs
	audited   audited
	tx        Tx
	open      bool // tx is begun and not committed
}

// Open opens or creates the store in dir and computes its caches. What a crash
// during Restore or Image left behind is removed.
func Open(dir string, o Options) (*Store, error) {
	s := &Store{dir: dir, fs: o.FS, options: o, ownShared: o.Shared == nil}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	if s.options.MemTableBytes <= 0 {
		s.options.MemTableBytes = DefaultMemTableBytes
	}
	if s.options.laneChangesKept == 0 {
		s.options.laneChangesKept = laneChangesKept
	}
	if s.options.headsKept == 0 {
		s.options.headsKept = headsKept
	}
	if s.ownShared {
		s.options.Shared = NewShared(ownCacheBytes + memTables*int64(s.options.MemTableBytes))
	}
	if s.options.outboxOps == 0 {
		s.options.outboxOps, s.options.outboxBytes = MaxOutboxOps, MaxOutboxBytes
	}
	s.failure.init()
	gen, err := s.openCurrent()
	if err == nil {
		var c *caches
		if c, err = loadCaches(gen.db); err == nil {
			s.install(gen, c)
			return s, nil
		}
		err = errors.Join(err, gen.db.Close())
	}
	if s.ownShared {
		s.options.Shared.Close()
	}
	return nil, fmt.Errorf("open the store in %s: %w", dir, err)
}

// install makes a generation and its caches the store's. The caller is alone
// with the store, or holds publish and mu.
func (s *Store) install(gen *generation, c *caches) {
	s.gen = gen
	s.head.Store(c.head)
	s.configuration.Store(c.configuration)
	s.keys, s.queues, s.newest, s.leases = c.keys, c.queues, c.newest, c.leases
	s.outboxes, s.inboxes, s.laneJournal = c.outboxes, c.inboxes, c.laneJournal
	s.audited = c.audited
	gen.recentJobs.bound, gen.recentPayloads.bound = s.options.MemTableBytes/recentShare, s.options.MemTableBytes/recentShare
	s.publishOutboxes()
	s.keysRead.Store(newKeyring(c.keys))
	s.resources = c.resources
	s.bookRead.Store(c.book)
	s.gates.install(c.gates)
	s.gauges.Range(func(name, g any) bool {
		if c.queues[name.(string)] == nil {
			g.(*gauge).fetchable.Store(0)
		}
		return true
	})
	s.replenish.reset()
	s.clearings.keep(c.queues)
	for _, q := range c.queues {
		q.gauge = s.gauge(q.rec.Name)
		q.gauge.publish(q, c.head.ClockNs)
		s.keepReplenishment(q, c.head.ClockNs)
		s.clearings.set(q)
		q.cleared = q.clears()
	}
	for i := range s.floors {
		s.floors[i].reset()
	}
	s.open = false
}

// Close flushes and closes. No Tx and no Snapshot may be open: what a forgotten
// Snapshot holds is closed with it, and Close says so.
func (s *Store) Close() error {
	flushed := s.Flush()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	if s.Err() != nil {
		flushed = nil // said by Err, and by every commit since
	}
	err := errors.Join(flushed, s.gen.release())
	if held := s.gen.held(); held > 0 {
		err = errors.Join(err, fmt.Errorf("%d snapshots are open", held))
	}
	if s.ownShared {
		s.options.Shared.Close()
	}
	if err != nil {
		return fmt.Errorf("close the store in %s: %w", s.dir, err)
	}
	return nil
}

// SetHooks sets the hooks; it must be called before the first Begin.
func (s *Store) SetHooks(h Hooks) { s.hooks = h }

// Err is why the store has stopped: the first failure of its disk or of a
// commit; nil while it is sound. A failed store refuses every commit and flush.
// It must be closed; opened again it holds a prefix of what was applied.
func (s *Store) Err() error { return s.failure.get() }

// Failed is closed when Err has something to say, also where a background flush
// or compaction failed.
func (s *Store) Failed() <-chan struct{} { return s.failure.closed }

// Applied is the position of the last entry in the store; zero for an empty one.
func (s *Store) Applied() entry.Applied { return s.head.Load().applied() }

// Head is a copy of the head record of the last commit.
func (s *Store) Head() *Head { return s.head.Load().copy() }

// FeatureLevel is the head's, asked for with every op: it makes no copy.
func (s *Store) FeatureLevel() uint32 { return s.head.Load().FeatureLevel }

// Flush makes everything committed before the call durable. It may be called
// beside apply.
func (s *Store) Flush() error {
	gen, err := s.acquire()
	if err != nil {
		return err
	}
	return errors.Join(s.flush(gen), gen.release())
}

func (s *Store) flush(gen *generation) error {
	if err := s.Err(); err != nil {
		return err
	}
	done, err := gen.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	// Pebble tries a failed flush again and again and never tells the waiter.
	select {
	case <-done:
		return s.Err()
	case <-s.failure.closed:
		return s.Err()
	}
}

// failure remembers the first error that makes a store unusable.
type failure struct {
	once   sync.Once
	err    error
	closed chan struct{}
}

func (f *failure) init() { f.closed = make(chan struct{}) }

// set records an error and returns the first one recorded.
func (f *failure) set(err error) error {
	f.once.Do(func() {
		f.err = err
		close(f.closed)
	})
	<-f.closed
	return f.err
}

func (f *failure) get() error {
	select {
	case <-f.closed:
		return f.err
	default:
		return nil
	}
}
