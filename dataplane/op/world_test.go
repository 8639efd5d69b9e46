package op_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// The tests of this package use these words. A world is a machine on a real store, with a clock that only the
// test moves and a log of all applied entries. newJobs, fetch and ack return ops and apply nothing. apply
// encodes ops as one entry and applies it, without Validate; one applies a single op that must not be
// refused; try applies an encoded entry that may stop the machine. restart closes the store and opens it
// again. check recomputes every index and counter from the records. checkReplica applies the log to a second
// store, which must become equal byte for byte. Tests with several shards use a shard instead, which is one
// store of a namespace with a history of its own; deliver carries the waiting ops of its outbox to another
// shard.

// epochNs is where every test's clock begins.
const epochNs = int64(1_700_000_000 * time.Second)

// incarnation is the history of every test's store.
var incarnation = entry.Incarnation{1}

// world is a machine on a real store, fed with entries as the log would.
type world struct {
	t       testing.TB
	dir     string
	store   *state.Store
	machine *op.Machine
	clockNs int64
	index   uint64
	log     []logged
	minted  uint64 // ids and seeds handed out
}

// logged is an entry as encoded, with the bounds it was applied under.
type logged struct {
	data     []byte
	memory   op.Memory
	maxLevel uint32
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clockNs: epochNs}
	w.open()
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) open() {
	w.t.Helper()
	w.store = openStore(w.t, w.dir)
	w.machine = op.NewMachine(w.store)
}

// restart closes the store and opens it again.
func (w *world) restart() {
	w.t.Helper()
	if err := w.store.Close(); err != nil {
		w.t.Fatal(err)
	}
	most := w.machine.MaxLevel
	w.open()
	w.machine.MaxLevel = most
}

func openStore(t testing.TB, dir string) *state.Store {
	t.Helper()
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// at returns the position of an entry in every test's log.
func at(index uint64) entry.Applied {
	return entry.Applied{Group: "test", Incarnation: incarnation, Index: index, Term: 1}
}

// addTo adds an op to an entry. A raw op is a proposal of its own.
func addTo(b *entry.Builder, o op.Op) error {
	p, ok := o.(pipeline.Op)
	if !ok {
		p = op.Proposal(o)
	}
	return b.Add(p.Number(), p.SizeVT(), p)
}

// encode makes an entry of ops.
func (w *world) encode(level uint32, ops ...op.Op) []byte {
	w.t.Helper()
	var b entry.Builder
	for _, o := range ops {
		if err := addTo(&b, o); err != nil {
			w.t.Fatal(err)
		}
	}
	return b.Finish(entry.Header{Level: level, Incarnation: incarnation, ClockNs: w.clockNs, Seed: seedOf(w.index)})
}

// seedOf returns the seed of the entry after an index. Each entry has its own, so that ids created in Apply
// differ.
func seedOf(index uint64) (seed entry.Seed) {
	binary.BigEndian.PutUint64(seed[:], index)
	return seed
}

// apply sends one entry of ops through its encoding into the machine.
func (w *world) apply(ops ...op.Op) []any {
	w.t.Helper()
	results, err := w.try(w.encode(op.FeatureLevel, ops...))
	if err != nil {
		w.t.Fatal(err)
	}
	if len(results) != len(ops) {
		w.t.Fatalf("%d results for %d ops", len(results), len(ops))
	}
	return results
}

// try applies an encoded entry, which may stop the machine.
func (w *world) try(data []byte) ([]any, error) {
	w.t.Helper()
	e, err := entry.Decode(data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.index++
	w.log = append(w.log, logged{data, w.machine.Memory, w.machine.MaxLevel})
	return w.machine.Apply(at(w.index), e)
}

// one applies a single op and wants no refusal.
func one[R any](w *world, o op.Op) R {
	w.t.Helper()
	got := w.apply(o)[0]
	result, ok := got.(R)
	if !ok {
		w.t.Fatalf("answered %v", got)
	}
	return result
}

// mint returns a number that is new in this world.
func (w *world) mint() uint64 {
	w.minted++
	return w.minted
}

func (w *world) newID(queue string) job.ID {
	var entropy job.Entropy
	binary.BigEndian.PutUint64(entropy[1:], w.mint())
	return job.NewID(w.clockNs/int64(time.Millisecond), queue, entropy)
}

func (w *world) newSeed() []byte {
	seed := make([]byte, 16)
	binary.BigEndian.PutUint64(seed[8:], w.mint())
	return seed
}

// newJobs returns an enqueue of n plain jobs.
func (w *world) newJobs(queue string, n int) *op.Enqueue {
	o := &op.Enqueue{Meta: &op.Meta{}}
	for range n {
		id := w.newID(queue)
		o.Meta.Ids = append(o.Meta.Ids, id[:])
		o.Jobs = append(o.Jobs, &op.NewJob{
			Queue:    queue,
			Payload:  &job.Blob{Data: []byte("{}")},
			Priority: job.Normal,
			Retry:    job.NewRetry(),
		})
	}
	return o
}

// fetch returns a fetch of up to n jobs with the default lease.
func (w *world) fetch(queue string, n uint32) *op.Fetch {
	return &op.Fetch{
		Meta:     &op.Meta{LeaseSeed: w.newSeed()},
		Queues:   []string{queue},
		Count:    n,
		WorkerId: "w",
		LeaseMs:  job.DefaultLease.Milliseconds(),
	}
}

// ack returns an ack of leased jobs.
func ack(leased ...*op.Leased) *op.Ack {
	o := &op.Ack{Meta: &op.Meta{}}
	for _, l := range leased {
		o.Items = append(o.Items, &op.AckItem{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}})
	}
	return o
}

// idempotent returns a Meta with an idempotency key.
func idempotent(principal, key, request string) *op.Meta {
	hash := sha256.Sum256([]byte(request))
	return &op.Meta{Principal: principal, Idempotency: &op.Idempotency{Key: key, RequestHash: hash[:]}}
}

// check wants the store to be consistent.
func (w *world) check() {
	w.t.Helper()
	snapshot := w.store.Snapshot()
	defer snapshot.Close()
	if err := snapshot.Check(); err != nil {
		w.t.Fatal(err)
	}
}

// content returns all pairs of a store.
func content(t testing.TB, s *state.Store) []state.KV {
	t.Helper()
	snapshot := s.Snapshot()
	defer snapshot.Close()
	var all []state.KV
	for kv, err := range snapshot.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, kv)
	}
	return all
}

// checkReplica applies this world's log to a second store, which is closed and
// opened again between any two entries, and wants it equal byte for byte.
func (w *world) checkReplica() {
	w.t.Helper()
	dir := w.t.TempDir()
	store := openStore(w.t, dir)
	defer func() { store.Close() }()
	for i, l := range w.log {
		e, err := entry.Decode(l.data)
		if err != nil {
			w.t.Fatal(err)
		}
		m := op.NewMachine(store)
		m.Memory, m.MaxLevel = l.memory, l.maxLevel
		if _, err := m.Apply(at(uint64(i+1)), e); err != nil {
			w.t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			w.t.Fatal(err)
		}
		store = openStore(w.t, dir)
	}
	mine, theirs := content(w.t, w.store), content(w.t, store)
	for i := range max(len(mine), len(theirs)) {
		if i >= len(mine) || i >= len(theirs) {
			w.t.Fatalf("one store has %d pairs, the other %d", len(mine), len(theirs))
		}
		if !bytes.Equal(mine[i].Key, theirs[i].Key) || !bytes.Equal(mine[i].Value, theirs[i].Value) {
			w.t.Fatalf("pair %d differs: %q = %x, the replica has %q = %x", i, mine[i].Key, mine[i].Value, theirs[i].Key, theirs[i].Value)
		}
	}
}
