// Package state holds the authoritative records of a shard: a Pebble store of jobs, queues, API keys,
// resources and other records, and of everything that derives from them (ready order, timers, counters, the
// feed). Ops change it through a Tx, one per log entry. Apart from PutConfiguration, Restore and Import, all
// other code only reads. The package owns the layout of every store key (keyspace.go) and knows no op. It
// imports api, billing, dataplane/job, engine/entry, engine/image and Pebble. Outside of tests and the
// simulator, no other package of the data plane imports Pebble.
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

// Options configure a store.
type Options struct {
	FS     vfs.FS  // nil means the disk
	Shared *Shared // caches shared by the stores of a host; nil gives the store small ones of its own

	// MemTableBytes is the size of one memtable; 0 means DefaultMemTableBytes. A store has up to memTables of
	// them. A host with many stores sets less.
	MemTableBytes int

	wal       bool // keep Pebble's own log, unsynced; only to measure its cost
	headsKept int  // 0 means headsKept; tests use less

	laneChangesKept int // 0 means laneChangesKept; tests use less

	// 0 means MaxOutboxOps and MaxOutboxBytes; tests use less.
	outboxOps, outboxBytes uint64
}

// Hooks are called by the applying goroutine after readers can see a commit, and after Restore for the
// content of the store (except OnAudit). A nil hook is skipped. Hooks must not block and must not call back
// into a Tx.
type Hooks struct {
	// OnReady names a queue in which the commit may have made jobs fetchable, for example because a job
	// arrived or was promoted, an active job ended, or the queue was resumed. fetchable is the number of jobs
	// that may be fetched now, at least 1.
	OnReady func(queue string, fetchable int)
	// OnTimer reports that the commit set timers of the class. dueNs is the earliest of their due times.
	OnTimer func(class TimerClass, dueNs int64)
	// OnReplenish reports that the commit set new times at which rate limits allow kept jobs of queues. dueNs
	// is the earliest of these times.
	OnReplenish func(dueNs int64)
	// OnRetention reports a new earliest time, dueNs, at which the retention of a settled job may end.
	OnRetention func(dueNs int64)
	// OnClearing reports that a commit touched a queue whose jobs are being removed.
	OnClearing func()
	// OnFeed reports that the feed has grown.
	OnFeed func()
	// OnUsage reports new usage rows.
	OnUsage func()
	// OnMeters reports that a first queue has quantities that no usage row has.
	OnMeters func()
	// OnAudit reports new audit records.
	OnAudit func()
	// OnKeys reports that API keys or their permissions were created, changed or removed.
	OnKeys func()
	// OnResources reports that resources were declared, changed or removed.
	OnResources func()
	// OnGate reports that a gate with waiting jobs may have opened, or that a job came to a gate or left one.
	OnGate func()
	// OnBulk reports that a bulk operation, or a part of one, was read or changed.
	OnBulk func()
	// OnOutbox reports new ops for another shard.
	OnOutbox func()
}

// Store is one shard's state. One goroutine applies (Begin, Commit, PutConfiguration, Restore); any number of
// goroutines may read beside it.
//
// Ownership: only the applying goroutine uses the fields from queues on. It reads gen and its recent records
// without a lock, because nobody else changes them. A reader holds mu for reading while it uses gen, or
// acquires a reference to gen, so that Restore and Close cannot close the Pebble store under it. Restore
// holds mu for writing only to switch, and an entry never takes mu. A commit holds publish while it writes,
// so that Snapshot finds a batch and its head together.
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
	head          atomic.Pointer[Head] // committed; never changed once stored here
	configuration atomic.Pointer[configuration]
	members       atomic.Pointer[Members] // committed; never changed once stored here
	keysRead      atomic.Pointer[keyring] // committed API keys, for readers
	outboxesRead  atomic.Pointer[[]OutboxState]
	resourcesRead atomic.Pointer[ResourceIndex] // committed resources, for readers
	gauges        sync.Map                      // queue name -> *gauge
	floors        [timerClasses]timerFloor
	replenish     replenishments
	unmetered     unmetered
	clearings     clearings
	retentions    retentions
	bulkChanges   notifier
	memberChanges notifier
	gates         gates
	images        atomic.Uint64 // names image directories
	failure       failure

	queues      map[string]*queue
	keys        map[string]*Key
	outboxes    map[uint32]*Outbox // by destination
	inboxes     map[uint32]*Inbox  // by origin
	laneJournal laneJournal

	resources map[resourceName]*Resource
	newest    job.ID // no stored job or forward has a greater id
	leases    leases // of the active jobs
	audited   audited
	tx        Tx
	open      bool // tx has begun and is not committed
}

// Open opens or creates the store in dir and computes its caches. It removes the leftovers of a crash during
// Restore, and every image.
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

// install makes gen and its caches c the store's current ones. The caller is the store's only user, or holds
// publish and mu.
func (s *Store) install(gen *generation, c *caches) {
	s.gen = gen
	s.head.Store(c.head)
	s.configuration.Store(c.configuration)
	s.members.Store(c.members)
	s.keys, s.queues, s.newest, s.leases = c.keys, c.queues, c.newest, c.leases
	s.outboxes, s.inboxes, s.laneJournal = c.outboxes, c.inboxes, c.laneJournal
	s.audited = c.audited
	gen.recentJobs.bound, gen.recentPayloads.bound = s.options.MemTableBytes/recentShare, s.options.MemTableBytes/recentShare
	s.publishOutboxes()
	s.keysRead.Store(newKeyring(c.keys))
	s.resources = c.resources
	s.resourcesRead.Store(c.resourceIndex)
	s.gates.install(c.gates)
	s.gauges.Range(func(name, g any) bool {
		if c.queues[name.(string)] == nil {
			g.(*gauge).fetchable.Store(0)
		}
		return true
	})
	s.replenish.reset()
	s.retentions.reset(c.queues, c.head.GetSettings().GetRetention())
	s.clearings.keep(c.queues)
	s.unmetered.reset()
	for _, q := range c.queues {
		q.gauge = s.gauge(q.rec.Name)
		q.gauge.publish(q, c.head.ClockNs)
		s.keepReplenishment(q, c.head.ClockNs)
		s.clearings.set(q)
		q.cleared = q.clears()
		s.publishMetered(q, c.head)
	}
	for i := range s.floors {
		s.floors[i].reset()
	}
	s.open = false
}

// Close flushes and closes the store. A second Close does nothing. No Tx may be open. If a Snapshot, a
// JobReader or a running Image still holds the Pebble store, Close returns an error, and the Pebble store is
// closed when the last of them ends. Close does not return the failure that Err gives.
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
		flushed = nil // reported by Err and by every commit since
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

// SetHooks sets the hooks. The caller must call it before the first Begin.
func (s *Store) SetHooks(h Hooks) { s.hooks = h }

// Err returns the reason why the store has stopped: the first failure of its disk or of the applying
// goroutine. It is nil while the store is sound. A failed store still serves reads. It refuses every commit,
// flush, image and restore, and must be closed. When opened again it holds a prefix of the applied entries.
func (s *Store) Err() error { return s.failure.get() }

// Failed returns a channel that is closed when Err becomes non-nil, also by a failed background flush or
// compaction.
func (s *Store) Failed() <-chan struct{} { return s.failure.closed }

// Applied returns the position of the last entry in the store, or zero for an empty one.
func (s *Store) Applied() entry.Applied { return s.head.Load().applied() }

// Head returns a copy of the head record of the last commit. The caller must not change its byte slices and
// messages, because the store shares them.
func (s *Store) Head() *Head { return s.head.Load().copy() }

// FeatureLevel returns the head's level without copying the head, because every op asks for it.
func (s *Store) FeatureLevel() uint32 { return s.head.Load().FeatureLevel }

// Flush makes everything committed before the call durable. It may run beside apply.
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
	// Pebble retries a failed flush for ever and never notifies the waiter.
	select {
	case <-done:
		return s.Err()
	case <-s.failure.closed:
		return s.Err()
	}
}

// failure holds the first error that makes a store unusable.
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
