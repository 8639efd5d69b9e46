package op_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// Two shards get any ops on a few queues, jobs, keys, batches and schedules, several in an entry, in any
// order, right or wrong. No op of a client or a duty stops a replica or makes its store inconsistent. Each
// shard accepts the ops that the other sends. Nothing is created twice. At the end every job settles and
// every waiter has been notified.
func TestHavoc(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := newHavoc(t, rt)
		defer h.close()
		for range rapid.IntRange(1, 40).Draw(rt, "entries") {
			h.step()
		}
		h.settleAll()
		h.checkEnd()
		for _, s := range h.shards {
			s.checkReplica(rt)
		}
	})
}

// havoc is a random history of two shards.
type havoc struct {
	t         *rapid.T
	w         *world // mints ids and seeds
	shards    [2]*havocShard
	jobs      [][]byte // every id of a job that was ever seen
	batches   [][]byte
	schedules [][]byte
	made      map[string][]byte    // by reason: the only job that may be created for it
	applied   map[[2]uint32]uint64 // from and to: the newest op that was delivered
}

// havocShard is a shard whose log is kept.
type havocShard struct {
	*shard
	log  [][]byte
	last []op.Op // what was applied lately, to be repeated
}

// homes are the queues, and the shard each lies on.
var homes = map[string]uint32{"a0": 0, "b0": 0, "c0": 0, "a1": 1, "b1": 1}

var havocQueues = []string{"a0", "b0", "c0", "a1", "b1"}

func newHavoc(t *testing.T, rt *rapid.T) *havoc {
	h := &havoc{t: rt, w: &world{t: t, clockNs: epochNs}, made: map[string][]byte{}, applied: map[[2]uint32]uint64{}}
	for i := range h.shards {
		h.shards[i] = &havocShard{shard: openShard(t, i)}
	}
	return h
}

func (h *havoc) close() {
	for _, s := range h.shards {
		if err := s.store.Close(); err != nil {
			h.t.Error(err)
		}
	}
}

func (h *havoc) below(n int, what string) int { return rapid.IntRange(0, n-1).Draw(h.t, what) }

// once returns true one time in n.
func (h *havoc) once(n int, what string) bool { return h.below(n, what) == 0 }

// step applies an entry of a few ops to one of the shards.
func (h *havoc) step() {
	s := h.shards[h.below(2, "shard")]
	h.w.clockNs += int64(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Millisecond, time.Second, time.Minute, time.Hour, 8 * 24 * time.Hour,
	}).Draw(h.t, "passes"))
	var ops []op.Op
	for range 1 + h.below(4, "ops") {
		o := h.any(s)
		if o == nil || o.Validate() != nil {
			continue
		}
		if e, ok := o.(*op.Enqueue); ok && slices.Contains(s.last, op.Op(e)) {
			ops = slices.Insert(ops, 0, o) // before an op of this entry deletes the job by which the repeat is recognised
			continue
		}
		ops = append(ops, o)
	}
	if len(ops) == 0 {
		return
	}
	h.apply(s, ops...)
	s.last = append(s.last, ops...)
	s.last = s.last[max(0, len(s.last)-10):]
}

// apply applies an entry and checks the shard.
func (h *havoc) apply(s *havocShard, ops ...op.Op) []any {
	var b entry.Builder
	for _, o := range ops {
		if err := addTo(&b, o); err != nil {
			h.t.Fatal(err)
		}
	}
	head := s.store.Head()
	data := b.Finish(entry.Header{
		Level: op.FeatureLevel, Incarnation: s.incarnation(), ClockNs: h.w.clockNs, Seed: seedOf(head.Index<<8 | uint64(s.number)),
	})
	s.log = append(s.log, data)
	results, err := s.play(s.machine, data, head.Index+1)
	if err != nil {
		h.t.Fatalf("shard %d stopped: %v", s.number, err)
	}
	for i, o := range ops {
		if d, ok := o.(*op.Deliver); ok {
			if r, ok := results[i].(*op.DeliverResult); ok {
				h.applied[[2]uint32{d.From, s.number}] = r.LastSeq
			}
		}
	}
	v := s.store.Snapshot()
	defer v.Close()
	if err := v.Check(); err != nil {
		h.t.Fatalf("shard %d: %v", s.number, err)
	}
	h.look(v)
	return results
}

func (s *havocShard) play(m *op.Machine, data []byte, index uint64) ([]any, error) {
	e, err := entry.Decode(data)
	if err != nil {
		return nil, err
	}
	return m.Apply(entry.Applied{Group: fmt.Sprintf("ns/%d", s.number), Incarnation: s.incarnation(), Index: index, Term: 1}, e)
}

// look records the jobs, and checks that none is created twice for the same reason.
func (h *havoc) look(v *state.Snapshot) {
	h.lookAtReservations(v)
	for j, err := range v.Jobs() {
		if err != nil {
			h.t.Fatal(err)
		}
		h.know(&h.jobs, j.Id)
		if o := j.Origin; o != nil && len(j.Options.GetReplayOf()) == 0 {
			h.owed(fmt.Sprintf("%s of %x%x", o.Kind, o.JobId, o.BatchId), j.Id)
		}
		if l := j.Chain; l != nil {
			h.owed(fmt.Sprintf("step %d of %x", l.Step, l.ChainId), j.Id)
		}
	}
}

func (h *havoc) know(ids *[][]byte, id []byte) {
	for _, known := range *ids {
		if bytes.Equal(known, id) {
			return
		}
	}
	*ids = append(*ids, bytes.Clone(id))
}

func (h *havoc) owed(what string, id []byte) {
	if first, ok := h.made[what]; ok && !bytes.Equal(first, id) {
		h.t.Fatalf("%s was made twice: %s and %s", what, job.ID(first), job.ID(id))
	}
	h.made[what] = bytes.Clone(id)
}

// checkReplica applies the log to a store that is closed and opened now and then, and requires it to be
// equal.
func (s *havocShard) checkReplica(rt *rapid.T) {
	fs := vfs.NewMem()
	open := func() *state.Store {
		store, err := state.Open("replica", state.Options{FS: fs})
		if err != nil {
			rt.Fatal(err)
		}
		return store
	}
	store := open()
	defer func() { store.Close() }()
	for i, data := range s.log {
		if _, err := s.play(op.NewMachine(store), data, uint64(i+1)); err != nil {
			rt.Fatalf("shard %d, replayed: %v", s.number, err)
		}
		if err := store.Close(); err != nil {
			rt.Fatal(err)
		}
		store = open()
	}
	mine, theirs := content(s.t, s.store), content(s.t, store)
	for i := range max(len(mine), len(theirs)) {
		if i >= len(mine) || i >= len(theirs) {
			rt.Fatalf("shard %d: %d pairs and %d", s.number, len(mine), len(theirs))
		}
		if !bytes.Equal(mine[i].Key, theirs[i].Key) || !bytes.Equal(mine[i].Value, theirs[i].Value) {
			rt.Fatalf("shard %d: pair %d is %x = %x and %x = %x", s.number, i, mine[i].Key, mine[i].Value, theirs[i].Key, theirs[i].Value)
		}
	}
}
