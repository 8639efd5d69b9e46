package state

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/engine/entry"
)

// Tx collects the changes of one entry. Its reads see its own writes, unless their comments say otherwise. It
// owns a record given to a Put method from then on, unless the method stores a copy. It must not be used
// after Commit.
//
// Tx uses no indexed batch, because nearly everything an op reads back lies in memory: the jobs and other
// records that the entry has read or written, and all queues, API keys and resources. readWritten serves
// blobs and errors. A job is encoded once, at Commit, however many ops of the entry changed it, and only the
// derived keys that differ between the stored job and its last version are moved.
type Tx struct {
	s      *Store
	header entry.Header
	head   *Head // a copy of the committed head, published at Commit
	batch  *pebble.Batch
	err    error // the first impossible event; Commit refuses

	jobs          map[job.ID]*entryJob
	order         []*entryJob // of jobs, in the order of their first use
	byID          []*entryJob // the changed jobs of order, for Commit
	queues        []*queue
	lanes         []*lane     // touched ones
	laneChanges   LaneChanges // scratch
	feed          FeedEntry
	newest        job.ID // the greatest id put, or the Store's if that is greater
	keysPut       bool
	usageGrew     bool
	auditGrew     bool
	outboxes      map[uint32]bool    // changed outboxes by shard; true for those that grew
	inboxes       map[uint32]bool    // changed inboxes
	locks         map[lockName]*lock // read or taken
	lockOrder     []*lock
	idsCreated    uint64 // number of ids created by NewID
	batches       rows[Batch, *Batch]
	payloads      rows[job.Blob, *job.Blob] // of batches' callbacks
	schedules     rows[Schedule, *Schedule]
	dependents    rows[Dependents, *Dependents]
	accounts      rows[Account, *Account]
	traffic       rows[Traffic, *Traffic]
	scores        rows[Scores, *Scores]
	alerts        rows[Alert, *Alert]
	deliveries    rows[Delivery, *Delivery]
	attempted     rows[Attempted, *Attempted]
	bulk          bulkRows
	resourceIndex *ResourceIndex // as the entry leaves it; nil until the first use and after a change
	resourcesPut  bool
	membersPut    *Members                  // nil if the entry put none
	gated         bool                      // a gate may have opened, or a job has come to one or left one
	waiters       map[waiterName]bool       // added or removed by the entry; false for removed
	deleted       []*queue                  // removed queues that were in the store or created by the entry
	idempotency   map[[16]byte]*Idempotency // read or written; nil for none
	earliest      [timerClasses]int64       // due time of the earliest timer set; latest for none
	retentionNs   int64                     // end of the first retention, if the entry lowered it; latest if not
	replenishNs   int64                     // first time that frees a queue newly kept by a rate limit; latest for none
	opensGates    bool                      // the settings of a queue with jobs at gates changed
	gainsMeters   bool                      // a first queue has quantities that no usage row has
	clears        bool                      // a touched queue is being cleared or deleted
	payloadsPut   []payloadPut              // put and deleted payloads
	documents     uint64                    // bytes of blobs, iterations and ops for other shards written so far
	spareJobs     []*entryJob
	spareEvents   []*Event
	written       map[string][]byte // see readWritten
	writtenRead   int
	key           []byte   // scratch: one key at a time
	ahead         []job.ID // scratch

	iterations map[iterationName]*job.Iteration // iterations that the entry has written
}

// entryJob is a job that the entry has touched.
type entryJob struct {
	id     job.ID
	job    *job.Job // as the last op left it; nil if there is none
	queue  *queue
	stored index // of the stored record; zero if there is none
	now    index // of the record as last put
	dirty  bool
	// undelivered: no worker received the attempt that the op ends.
	undelivered bool
	record      []byte // encoded by Commit, in the batch

	forward     *Forward // where it went; nil for nowhere, and until forwardRead
	forwardRead bool

	attempts     []uint32 // attempts with an error record, in order, once attemptsRead
	attemptsRead bool

	room [64]byte // for a short history
}

// A Tx keeps this much memory for the next one. It leaves memory beyond that to the garbage collector, so
// that one large entry does not occupy it for good. sparesKept counts records of each kind.
const (
	sparesKept = 4096
	batchKept  = 1 << 20 // bytes
)

// Begin starts the entry at the given position. There is one Tx at a time, which the store reuses. The Tx's
// clock is the maximum of the header's clock and the last entry's, because a new leader's clock may be behind
// its predecessor's and time must not go back. Every replica computes the same maximum from replicated
// numbers.
//
// Begin does not fail. Commit refuses an entry that does not follow the last one, belongs to another group or
// incarnation, or was begun before the last one was committed, and every entry of a failed store.
func (s *Store) Begin(at entry.Applied, h entry.Header) *Tx {
	tx := &s.tx
	usable := s.usable()
	tx.s, tx.header, tx.err = s, h, nil
	tx.head = s.head.Load().copy()
	if usable != nil {
		tx.fail(usable)
	}
	if err := tx.head.advance(at); err != nil {
		tx.fail(err)
	}
	if at.Incarnation != h.Incarnation {
		tx.fail(fmt.Errorf("entry %d is of incarnation %x, its position of %x", at.Index, h.Incarnation[:], at.Incarnation[:]))
	}
	if err := tx.head.join(at.Index, at.Incarnation); err != nil {
		tx.fail(err)
	}
	tx.head.ClockNs = max(tx.head.ClockNs, h.ClockNs)
	tx.reset()
	s.open = true
	return tx
}

// reset empties the Tx and keeps its memory.
func (tx *Tx) reset() {
	if tx.batch == nil {
		tx.batch = tx.s.gen.db.NewBatch(pebble.WithMaxRetainedSizeBytes(batchKept))
	}
	for i, h := range tx.order {
		if len(tx.spareJobs) < sparesKept {
			*h = entryJob{}
			tx.spareJobs = append(tx.spareJobs, h)
		}
		tx.order[i] = nil
	}
	if tx.jobs == nil || len(tx.jobs) > sparesKept {
		tx.jobs, tx.order, tx.byID = map[job.ID]*entryJob{}, nil, nil
	}
	if tx.idempotency == nil || len(tx.idempotency) > sparesKept {
		tx.idempotency = map[[16]byte]*Idempotency{}
	}
	clear(tx.jobs)
	clear(tx.idempotency)
	clear(tx.byID)
	clear(tx.payloadsPut)
	if cap(tx.payloadsPut) > sparesKept {
		tx.payloadsPut = nil
	}
	tx.order, tx.byID, tx.payloadsPut = tx.order[:0], tx.byID[:0], tx.payloadsPut[:0]
	tx.queues = tx.queues[:0]
	clear(tx.lanes)
	tx.lanes = tx.lanes[:0]
	clear(tx.laneChanges.Lanes)
	clear(tx.deleted)
	tx.deleted = tx.deleted[:0]
	if len(tx.spareEvents) > sparesKept {
		tx.spareEvents = nil
	}
	tx.feed.Events = tx.spareEvents[:0]
	tx.feed.Index, tx.feed.ClockNs = tx.head.Index, tx.head.ClockNs
	tx.keysPut, tx.usageGrew, tx.auditGrew, tx.resourcesPut = false, false, false, false
	tx.resourceIndex, tx.membersPut = tx.s.resourcesRead.Load(), nil
	clear(tx.outboxes)
	clear(tx.inboxes)
	clear(tx.locks)
	clear(tx.waiters)
	clear(tx.iterations)
	tx.lockOrder, tx.idsCreated = tx.lockOrder[:0], 0
	tx.batches.reset()
	tx.payloads.reset()
	tx.schedules.reset()
	tx.dependents.reset()
	tx.accounts.reset()
	tx.traffic.reset()
	tx.scores.reset()
	tx.alerts.reset()
	tx.deliveries.reset()
	tx.attempted.reset()
	tx.bulk.reset()
	tx.written, tx.writtenRead = nil, 0
	tx.newest = tx.s.newest
	tx.replenishNs, tx.retentionNs, tx.clears, tx.documents = latest, latest, false, 0
	tx.opensGates, tx.gainsMeters = false, false
	for class := range tx.earliest {
		tx.earliest[class] = latest
	}
}

// fail records err, unless an impossible event was recorded before, and returns err. Commit then refuses,
// even if an op ignores the error.
func (tx *Tx) fail(err error) error {
	if tx.err == nil {
		tx.err = err
	}
	return err
}

// ClockNs returns the entry's time in Unix nanoseconds.
func (tx *Tx) ClockNs() int64 { return tx.head.ClockNs }

// Header returns the entry's header.
func (tx *Tx) Header() entry.Header { return tx.header }

// Head returns the live head as the entry leaves it. Ops only read it, except that CreateKey, RaiseLevel and
// SetSettings set fields of it.
func (tx *Tx) Head() *Head { return tx.head }

// Commit writes all changes and the new Head in one batch, publishes them to readers and calls the hooks. It
// does not wait for the disk; see Flush. After an error the store refuses every further commit and must be
// closed, because its caches may contain the Tx's changes. It also refuses every further commit if a Tx is
// never committed.
func (tx *Tx) Commit() error {
	s := tx.s
	if !s.open {
		return s.failure.set(fmt.Errorf("entry %d was committed twice", tx.head.Index))
	}
	for _, encode := range []func() error{tx.encodeJobs, tx.encodeLocks, tx.encodeRecords, tx.encodeAccounts, tx.encodeBulks, tx.encodeLanes, tx.encodeQueues, tx.encodeOutboxes, tx.encodeFeed} {
		if tx.err != nil {
			break
		}
		if err := encode(); err != nil {
			tx.fail(err)
		}
	}
	if tx.err != nil {
		return s.failure.set(fmt.Errorf("apply entry %d: %w", tx.head.Index, tx.err))
	}
	grew := len(tx.feed.Events) > 0
	if err := s.write(tx.batch, tx.head, tx.publishForSnapshots); err != nil {
		return err
	}
	tx.batch.Reset()
	s.open = false
	tx.publish()
	tx.callHooks(grew)
	return nil
}

// encodeQueues writes the records of the queues that the entry touched.
func (tx *Tx) encodeQueues() error {
	for _, q := range tx.queues {
		tx.key = append(append(tx.key[:0], prefixQueue), q.rec.Name...)
		if err := put(tx.batch, tx.key, q.rec); err != nil {
			return err
		}
	}
	return nil
}

// publishForSnapshots updates the memory that a snapshot combines with its head: the recent records and the
// API keys. write calls it before it publishes the head, while no snapshot can be taken.
func (tx *Tx) publishForSnapshots() {
	tx.keepRecent()
	if tx.keysPut {
		tx.s.keysRead.Store(newKeyring(tx.s.keys))
	}
}

// publish updates the memory that readers use, except the head, the recent records and the API keys, which
// write has updated.
func (tx *Tx) publish() {
	tx.s.newest = tx.newest
	for _, q := range tx.deleted {
		// A later queue of the entry with its name publishes a new gauge.
		tx.s.gauges.Delete(q.rec.Name)
		tx.s.replenish.set(q.rec.Name, 0)
		tx.s.clearings.drop(q.rec.Name)
		tx.s.unmetered.drop(q.rec.Name)
	}
	for _, q := range tx.queues {
		if q.gauge == nil {
			q.gauge = tx.s.gauge(q.rec.Name)
		}
		q.gauge.publish(q, tx.head.ClockNs)
		tx.publishWork(q)
	}
	tx.publishRetentions()
	if len(tx.outboxes) > 0 {
		tx.s.publishOutboxes()
	}
	if tx.resourcesPut {
		tx.s.resourcesRead.Store(tx.ResourceIndex())
	}
	if tx.membersPut != nil {
		tx.s.members.Store(tx.membersPut)
	}
	tx.markGates()
	tx.gated = tx.s.gates.changed
	if tx.gated {
		tx.s.gates.publish()
	}
	for class, due := range tx.earliest {
		if due != latest {
			tx.s.floors[class].lower(due)
		}
	}
}

// publishWork records the duties' work on a queue: replenishment and clearing.
func (tx *Tx) publishWork(q *queue) {
	kept := q.replenishNs != 0
	if due, news := tx.s.keepReplenishment(q, tx.head.ClockNs); news {
		tx.replenishNs = min(tx.replenishNs, due)
	}
	if kept && q.replenishNs == 0 {
		q.gainedJobs = true // time may have made jobs fetchable, independent of the entry's ops
	}
	clears := q.clears()
	if clears || q.cleared {
		tx.s.clearings.set(q)
	}
	q.cleared = clears
	tx.clears = tx.clears || clears
	if tx.s.publishMetered(q, tx.head) {
		tx.gainsMeters = true
	}
}

func (tx *Tx) callHooks(feedGrew bool) {
	hooks := tx.s.hooks
	for _, q := range tx.queues {
		gainedJobs := q.gainedJobs
		q.touched, q.gainedJobs = false, false
		if n := q.fetchable(tx.head.ClockNs); gainedJobs && n > 0 && hooks.OnReady != nil {
			hooks.OnReady(q.rec.Name, n)
		}
	}
	for class, due := range tx.earliest {
		if due != latest && hooks.OnTimer != nil {
			hooks.OnTimer(TimerClass(class), due)
		}
	}
	if tx.replenishNs != latest && hooks.OnReplenish != nil {
		hooks.OnReplenish(tx.replenishNs)
	}
	if tx.retentionNs != latest && hooks.OnRetention != nil {
		hooks.OnRetention(tx.retentionNs)
	}
	if tx.clears && hooks.OnClearing != nil {
		hooks.OnClearing()
	}
	if feedGrew && hooks.OnFeed != nil {
		hooks.OnFeed()
	}
	if tx.usageGrew && hooks.OnUsage != nil {
		hooks.OnUsage()
	}
	if tx.gainsMeters && hooks.OnMeters != nil {
		hooks.OnMeters()
	}
	if tx.auditGrew && hooks.OnAudit != nil {
		hooks.OnAudit()
	}
	if tx.keysPut && hooks.OnKeys != nil {
		hooks.OnKeys()
	}
	if tx.resourcesPut && hooks.OnResources != nil {
		hooks.OnResources()
	}
	if tx.membersPut != nil {
		tx.s.memberChanges.notify()
	}
	if tx.gated && hooks.OnGate != nil {
		hooks.OnGate()
	}
	if tx.bulk.touched() {
		tx.s.notifyBulk()
	}
	for _, grew := range tx.outboxes {
		if grew && hooks.OnOutbox != nil {
			hooks.OnOutbox()
			break
		}
	}
}
