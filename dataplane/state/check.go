package state

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/corvo/corvo/dataplane/job"
)

// checkReports bounds the differences that Check lists.
const checkReports = 20

// Check reads the whole snapshot, recomputes every derived key, and every counter that follows from the
// records, and compares them with the stored ones. The error lists the first checkReports differences, and is
// nil if there are none. An error of reading ends the check.
func (v *Snapshot) Check() error {
	c := &checker{v: v, inState: map[string]*[job.States]uint64{}, unique: map[string]uint64{}, gated: map[string]uint64{}, lanes: map[laneName]laneCount{}}
	for _, step := range []func() error{c.jobs, c.iterations, c.idempotency, c.records, c.members, c.resources, c.accounts, c.bulks, c.indexes, c.queues, c.checkLanes, c.keys, c.feed, c.usage, c.audit, c.outboxes, c.inboxes, c.forwards, c.prefixes} {
		if err := step(); err != nil {
			return fmt.Errorf("check entry %d: %w", v.head.Index, err)
		}
	}
	if c.found > len(c.reports) {
		c.reports = append(c.reports, fmt.Errorf("and %d more", c.found-len(c.reports)))
	}
	if err := errors.Join(c.reports...); err != nil {
		return fmt.Errorf("the store at entry %d is inconsistent:\n%w", v.head.Index, err)
	}
	return nil
}

// checker compares without holding the store in memory: it looks up each key that a record implies, counts
// these keys, and in the end compares each count with the number of the keys in the store.
type checker struct {
	v       *Snapshot
	inState map[string]*[job.States]uint64
	unique  map[string]uint64 // unique keys held, by queue
	lanes   map[laneName]laneCount
	gated   map[string]uint64 // jobs at gates, by queue
	atGates uint64            // expected gate keys
	ready   uint64            // expected ready keys
	keyed   uint64            // expected ready keys of jobs with a fairness key
	timers  uint64            // expected timer keys
	settled uint64            // expected keys of settled jobs
	locks   uint64            // expected locks
	awaited uint64            // jobs that have dependents
	agents  uint64            // jobs that have iteration records
	scored  uint64            // jobs that have scores
	reports []error
	found   int
}

func (c *checker) report(format string, args ...any) {
	c.found++
	if len(c.reports) < checkReports {
		c.reports = append(c.reports, fmt.Errorf(format, args...))
	}
}

// jobs checks each job's derived keys, blobs and errors. Blobs and errors lie in the same order as the jobs,
// so one pass over each suffices.
func (c *checker) jobs() error {
	blobs := newOwned(scanKeys(c.v.snap, []byte{prefixBlob}, afterPrefix(prefixBlob)), ownerOfBlob)
	defer blobs.stop()
	failures := newOwned(scanKeys(c.v.snap, []byte{prefixError}, afterPrefix(prefixError)), ownerOfError)
	defer failures.stop()
	for kv, err := range scanPairs(c.v.snap, []byte{prefixJob}, afterPrefix(prefixJob)) {
		if err != nil {
			return err
		}
		id, err := decodeJobKey(kv.Key)
		if err != nil {
			return err
		}
		j := &job.Job{}
		if err := decode(kv, j); err != nil {
			return err
		}
		if err := c.job(id, j); err != nil {
			return err
		}
		if kinds := blobs.of(id, c); kinds != j.Blobs {
			c.report("job %s marks blobs %b and has %b", id, j.Blobs, kinds)
		}
		if failures.of(id, c); failures.count != int(j.Errors) {
			c.report("job %s counts %d errors and has %d", id, j.Errors, failures.count)
		}
	}
	blobs.rest(c)
	failures.rest(c)
	return errors.Join(blobs.err, failures.err)
}

func (c *checker) job(id job.ID, j *job.Job) error {
	if string(j.Id) != string(id[:]) {
		c.report("job %s is stored as %x", id, j.Id)
	}
	if j.Number == 0 || j.Number >= c.v.head.NextJobNumber {
		c.report("job %s has number %d, the next is %d", id, j.Number, c.v.head.NextJobNumber)
	}
	ix, err := derive(j)
	if err != nil {
		c.report("job %s: %w", id, err)
		return nil
	}
	counts := c.inState[j.Queue]
	if counts == nil {
		counts = new([job.States]uint64)
		c.inState[j.Queue] = counts
	}
	counts[j.State]++
	if j.HasDependents {
		c.awaited++
	}
	if j.Detail.GetIterationsKept() > 0 {
		c.agents++
	}
	if j.Detail.GetScores() > 0 {
		c.scored++
	}
	c.countLane(ix)
	if ix.ready {
		if ix.key == "" {
			c.ready++
		} else {
			c.keyed++
		}
		if err := c.expect(appendReadyOf(nil, j.Queue, ix.key, ix.priority, ix.number), id[:]); err != nil {
			return err
		}
	}
	if ix.gate.kind != job.Gate_GATE_NONE {
		c.atGates++
		c.gated[j.Queue]++
		if err := c.expect(appendGateKey(nil, ix.gate, ix.priority, ix.number), id[:]); err != nil {
			return err
		}
	}
	for _, t := range [...]timer{ix.timer, ix.expiry, ix.unlock} {
		if t.class == 0 {
			continue
		}
		c.timers++
		if err := c.expect(appendTimerKey(nil, t, id), nil); err != nil {
			return err
		}
	}
	if ix.settled != 0 {
		c.settled++
		if err := c.expect(appendSettledKey(nil, j.Queue, ix.state, ix.settled, id), nil); err != nil {
			return err
		}
	}
	for kind, text := range ix.locks {
		if text == "" {
			continue
		}
		if err := c.lock(lockName{LockKind(kind), j.Queue, text}, id); err != nil {
			return err
		}
		if LockKind(kind) == LockUnique {
			c.unique[j.Queue]++
		}
	}
	return nil
}

// expect checks that a derived key exists and has the value.
func (c *checker) expect(key, value []byte) error {
	got, closer, err := c.v.snap.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		c.report("key %x is missing", key)
		return nil
	}
	if err != nil {
		return fmt.Errorf("key %x: %w", key, err)
	}
	if string(got) != string(value) {
		c.report("key %x holds %x, not %x", key, got, value)
	}
	return closer.Close()
}

func (c *checker) idempotency() error {
	records, size := uint64(0), uint64(0)
	for kv, err := range scanPairs(c.v.snap, []byte{prefixIdempotency}, afterPrefix(prefixIdempotency)) {
		if err != nil {
			return err
		}
		rec := &Idempotency{}
		if err := decode(kv, rec); err != nil {
			return err
		}
		if len(kv.Key) != 1+16 {
			return errKey(kv.Key, "not an idempotency key")
		}
		records++
		size += uint64(len(rec.Result))
		c.timers++
		if err := c.expect(appendTimerKey(nil, rec.timer(), [16]byte(kv.Key[1:])), nil); err != nil {
			return err
		}
	}
	if h := c.v.head; records != h.IdempotencyRecords || size != h.IdempotencyBytes {
		c.report("there are %d idempotency records with %d bytes of results, the head says %d with %d",
			records, size, h.IdempotencyRecords, h.IdempotencyBytes)
	}
	return nil
}

// indexes counts the keys of the indexes. Every expected key has already been looked up, so equal counts mean
// that there are no others.
func (c *checker) indexes() error {
	for _, x := range []struct {
		prefix byte
		what   string
		want   uint64
	}{{prefixReady, "ready", c.ready}, {prefixLaneReady, "keyed ready", c.keyed}, {prefixTimer, "timer", c.timers}, {prefixGate, "gate", c.atGates}, {prefixSettled, "settled", c.settled}} {
		got := uint64(0)
		for _, err := range scanKeys(c.v.snap, []byte{x.prefix}, afterPrefix(x.prefix)) {
			if err != nil {
				return err
			}
			got++
		}
		if got != x.want {
			c.report("there are %d %s keys, there should be %d", got, x.what, x.want)
		}
	}
	return nil
}

func (c *checker) queues() error {
	n := uint64(0)
	for q, err := range c.v.Queues() {
		if err != nil {
			return err
		}
		n++
		counts := c.inState[q.Name]
		if counts == nil {
			counts = new([job.States]uint64)
		}
		delete(c.inState, q.Name)
		if !slices.Equal(q.InState, counts[:]) {
			c.report("queue %q counts %v by state, there are %v", q.Name, q.InState, counts)
		}
		if n := c.gated[q.Name]; n != q.Gated {
			c.report("queue %q counts %d jobs at gates, there are %d", q.Name, q.Gated, n)
		}
		c.checkMeters(q)
		if n := c.unique[q.Name]; n != q.UniqueLocks {
			c.report("queue %q counts %d unique keys, there are %d", q.Name, q.UniqueLocks, n)
		}
	}
	for name := range c.inState {
		c.report("queue %q has jobs and no record", name)
	}
	if n != c.v.head.QueueRecords {
		c.report("there are %d queues, the head says %d", n, c.v.head.QueueRecords)
	}
	return nil
}

func (c *checker) keys() error {
	n := uint64(0)
	for _, err := range scanKeys(c.v.snap, []byte{prefixKey}, afterPrefix(prefixKey)) {
		if err != nil {
			return err
		}
		n++
	}
	if n != c.v.head.KeyRecords {
		c.report("there are %d API keys, the head says %d", n, c.v.head.KeyRecords)
	}
	return nil
}

// feed checks that the feed has no gap between its first and its next sequence.
func (c *checker) feed() error {
	next, offset := c.v.head.FeedFirstSeq, c.v.head.FeedTrimmedBytes
	for kv, err := range scanPairs(c.v.snap, []byte{prefixFeed}, afterPrefix(prefixFeed)) {
		if err != nil {
			return err
		}
		entry := &FeedEntry{}
		if err := decode(kv, entry); err != nil {
			return err
		}
		first, err := decodeFeedKey(kv.Key)
		if err != nil {
			return err
		}
		if first != next || len(entry.Events) == 0 {
			c.report("the feed has an entry of %d events at %d, where %d is next", len(entry.Events), first, next)
		}
		if entry.Offset != offset {
			c.report("the feed entry at %d lies at byte %d, where %d is next", first, entry.Offset, offset)
		}
		next, offset = first+uint64(len(entry.Events)), entry.Offset+uint64(len(kv.Key)+len(kv.Value))
	}
	if offset != c.v.head.FeedBytes {
		c.report("the feed ends at byte %d, the head says %d", offset, c.v.head.FeedBytes)
	}
	if next != c.v.head.FeedNextSeq {
		c.report("the feed ends before %d, the head says %d", next, c.v.head.FeedNextSeq)
	}
	return nil
}

// usage checks that the usage rows are numbered without a gap from the first to the next.
func (c *checker) usage() error {
	next := c.v.head.UsageFirstSeq
	for row, err := range c.v.Usage(0) {
		if err != nil {
			return err
		}
		if row.Seq != next {
			c.report("there is usage row %d where %d is next", row.Seq, next)
		}
		if row.Record.Report == nil && row.Record.Meters == nil {
			c.report("usage row %d reports nothing", row.Seq)
		}
		next = row.Seq + 1
	}
	if next != c.v.head.UsageNextSeq {
		c.report("the usage ends before row %d, the head says %d", next, c.v.head.UsageNextSeq)
	}
	return nil
}

// prefixes reports keys whose prefix is not in the table of keys.
func (c *checker) prefixes() error {
	lower := []byte(nil)
	for _, space := range append(slices.Clone(keyspaces), keyspace{}) {
		upper := []byte{space.prefix}
		if space.prefix == 0 {
			upper = nil
		}
		for key, err := range scanKeys(c.v.snap, lower, upper) {
			if err != nil {
				return err
			}
			c.report("key %x is of no known kind", key)
		}
		lower = afterPrefix(space.prefix)
	}
	return nil
}

// owned iterates over keys that belong to jobs, in the order of the jobs.
type owned struct {
	owner func(key []byte) (id job.ID, bit uint32, err error)
	next  func() ([]byte, error, bool)
	stop  func()
	ok    bool
	id    job.ID
	bit   uint32
	count int // number of keys of the job last asked for
	err   error
}

func newOwned(keys iter.Seq2[[]byte, error], owner func([]byte) (job.ID, uint32, error)) *owned {
	o := &owned{owner: owner}
	o.next, o.stop = iter.Pull2(keys)
	o.step()
	return o
}

func ownerOfBlob(key []byte) (job.ID, uint32, error) {
	id, kind, err := decodeBlobKey(key)
	return id, 1 << kind, err
}

func ownerOfError(key []byte) (job.ID, uint32, error) {
	id, _, err := decodeErrorKey(key)
	return id, 0, err
}

func (o *owned) step() {
	key, err, ok := o.next()
	if ok && err == nil {
		o.id, o.bit, err = o.owner(key)
	}
	o.ok = ok && err == nil
	o.err = errors.Join(o.err, err)
}

// of consumes the keys of a job and returns their bits. It reports the keys before them, because their jobs
// do not exist.
func (o *owned) of(id job.ID, c *checker) (all uint32) {
	o.count = 0
	for ; o.ok && string(o.id[:]) <= string(id[:]); o.step() {
		if o.id != id {
			c.report("job %s is not there and something of it is", o.id)
			continue
		}
		o.count++
		all |= o.bit
	}
	return all
}

// rest reports the remaining keys, because their jobs do not exist.
func (o *owned) rest(c *checker) {
	for ; o.ok; o.step() {
		c.report("job %s is not there and something of it is", o.id)
	}
}
