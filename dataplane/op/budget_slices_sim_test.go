package op_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

var sliceSeeds = flag.Int("slice.seeds", 30, "how many histories TestSliceSeeds plays")

// TestSliceSeeds plays histories of budgets that several shards share. Messages are delayed and repeated, and
// shards crash and apply their logs again. No attempt may ever begin on any shard unless all shards together have
// money left for it, and the first shard's grants equal the money that the others have or that is on its way. At
// the end, after all messages have been delivered, everything is reported, nothing is granted any more, and no
// job waits that there is room for.
func TestSliceSeeds(t *testing.T) {
	t.Parallel()
	for seed := range *sliceSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newSliceSim(t, rand.New(rand.NewPCG(uint64(seed), 31)))
			s.declare()
			for range 150 {
				s.step()
				s.conserved()
			}
			s.rest()
		})
	}
}

// sliceSim is a history of a namespace of several shards.
type sliceSim struct {
	t       *testing.T
	rng     *rand.Rand
	clockNs int64
	shards  []*sliceShard
	steady  bool // budgets are not changed: each keeps to the limits it has
	jobs    map[job.ID]*sliceJob
	order   []job.ID
	budgets map[string]*sliceBudget
}

// sliceShard is a shard: its log, the store that follows the log, and the messages that it has received from the
// others.
type sliceShard struct {
	*world // mints ids, and builds ops; it has no store
	number uint32
	disk   *vfs.MemFS
	kept   *state.Store
	runs   *op.Machine
	log    [][]byte
	heard  []uint64 // the last op of each shard that was applied
}

func newSliceSim(t *testing.T, rng *rand.Rand) *sliceSim {
	s := &sliceSim{t: t, rng: rng, clockNs: epochNs, jobs: map[job.ID]*sliceJob{}, budgets: map[string]*sliceBudget{}}
	s.steady = rng.IntN(2) == 0
	n := 2 + rng.IntN(3)
	for i := range n {
		sh := &sliceShard{number: uint32(i), disk: vfs.NewCrashableMem(), heard: make([]uint64, n)}
		sh.world = &world{t: t, clockNs: epochNs, minted: uint64(i) << 32}
		sh.opens(t)
		s.shards = append(s.shards, sh)
	}
	t.Cleanup(func() {
		for _, sh := range s.shards {
			if err := sh.kept.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func (sh *sliceShard) opens(t *testing.T) {
	t.Helper()
	store, err := state.Open("store", state.Options{FS: sh.disk})
	if err != nil {
		t.Fatal(err)
	}
	sh.kept, sh.runs = store, op.NewMachine(store)
}

func (sh *sliceShard) incarnation() entry.Incarnation { return entry.Incarnation{byte(sh.number) + 1} }

// follow applies the entries of the log that the store does not have.
func (sh *sliceShard) follow(t *testing.T) (results []any) {
	t.Helper()
	for i := sh.runs.Applied().Index; i < uint64(len(sh.log)); i++ {
		e, err := entry.Decode(sh.log[i])
		if err == nil {
			at := entry.Applied{Group: fmt.Sprintf("sim/%d", sh.number), Incarnation: sh.incarnation(), Index: i + 1, Term: 1}
			results, err = sh.runs.Apply(at, e)
		}
		if err != nil {
			t.Fatalf("shard %d, entry %d: %v", sh.number, i+1, err)
		}
	}
	return results
}

// apply has a shard apply an op, which must not be refused.
func (s *sliceSim) apply(sh *sliceShard, o op.Op) any {
	s.t.Helper()
	if err := o.Validate(); err != nil {
		s.t.Fatalf("%T: %v", o, err)
	}
	var b entry.Builder
	if err := addTo(&b, o); err != nil {
		s.t.Fatal(err)
	}
	sh.log = append(sh.log, b.Finish(entry.Header{
		Level: op.FeatureLevel, Incarnation: sh.incarnation(), ClockNs: s.clockNs, Seed: seedOf(uint64(sh.number)<<32 + uint64(len(sh.log))),
	}))
	result := sh.follow(s.t)[0]
	if err, refused := result.(error); refused {
		s.t.Fatalf("shard %d refuses %T: %v", sh.number, o, err)
	}
	return result
}

// crash makes a shard lose its state since the last flush and apply its log again.
func (s *sliceSim) crash(sh *sliceShard) {
	s.t.Helper()
	if s.rng.IntN(3) == 0 {
		if err := sh.runs.Flush(); err != nil {
			s.t.Fatal(err)
		}
	}
	disk := sh.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: s.rng.IntN(101), RNG: rand.New(rand.NewPCG(s.rng.Uint64(), 0))})
	before := s.content(sh)
	if err := sh.kept.Close(); err != nil {
		s.t.Fatal(err)
	}
	sh.disk = disk
	sh.opens(s.t)
	sh.follow(s.t)
	after := s.content(sh)
	if !slices.EqualFunc(before, after, func(a, b state.KV) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }) {
		s.t.Fatalf("shard %d is another after a crash", sh.number)
	}
}

func (s *sliceSim) content(sh *sliceShard) []state.KV { return content(s.t, sh.kept) }

// step lets something happen.
func (s *sliceSim) step() {
	s.t.Helper()
	s.clockNs += int64([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 20 * time.Second, time.Hour, 9 * time.Hour}[min(s.rng.IntN(14), 6)])
	sh := s.shards[s.rng.IntN(len(s.shards))]
	switch s.rng.IntN(20) {
	case 0, 1, 2:
		s.enqueue(sh)
	case 3, 4, 5, 6:
		s.fetch(sh, uint32(1+s.rng.IntN(3)))
	case 7, 8, 9:
		s.report(sh)
	case 10, 11:
		s.openGates(sh)
	case 12:
		s.balance(sh)
	case 13:
		s.turn()
	case 14:
		s.crash(sh)
	case 15:
		if !s.steady {
			s.declare()
		}
	case 16:
		s.reclaim(sh)
	default:
		s.deliver(s.shards[s.rng.IntN(len(s.shards))], sh)
	}
}

// deliver delivers some messages of one shard to another, sometimes again.
func (s *sliceSim) deliver(from, to *sliceShard) (any bool) {
	s.t.Helper()
	if from == to {
		return false
	}
	next := to.heard[from.number] + 1
	if next > 1 && s.rng.IntN(4) == 0 {
		next -= uint64(s.rng.IntN(int(min(next-1, 3)) + 1))
	}
	rows, err := from.kept.Outgoing(to.number, next, 1+s.rng.IntN(4), 1<<20)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(rows) == 0 {
		return false
	}
	incarnation := from.incarnation()
	o := &op.Deliver{From: from.number, Incarnation: incarnation[:], FirstSeq: rows[0].Seq}
	for _, row := range rows {
		o.Items = append(o.Items, &op.Sent{Number: row.Op.Number, Op: row.Op.Op})
	}
	if rows[0].Seq > to.heard[from.number]+1 {
		s.t.Fatalf("ops up to %d are gone from shard %d, and %d has not heard of all", rows[0].Seq-1, from.number, to.number)
	}
	last := s.apply(to, o).(*op.DeliverResult).LastSeq
	any = last > to.heard[from.number]
	to.heard[from.number] = last
	if s.rng.IntN(4) == 0 {
		s.apply(from, &op.TrimOutbox{Shard: to.number, UpTo: last})
	}
	return any
}

// balance balances the slices that are due, and some that are not.
func (s *sliceSim) balance(sh *sliceShard) {
	s.t.Helper()
	o := &op.BalanceBudgets{}
	for _, r := range sh.kept.ResourceIndex().Resources(state.ResourceKind_RESOURCE_KIND_BUDGET) {
		o.Ids = append(o.Ids, r.Id)
	}
	if len(o.Ids) > 0 {
		s.apply(sh, o)
	}
}

// turn turns the windows of budgets that are over.
func (s *sliceSim) turn() {
	s.t.Helper()
	home := s.shards[0]
	w := &world{t: s.t, store: home.kept, clockNs: s.clockNs}
	turns := w.turns()
	if len(turns) == 0 {
		return
	}
	s.apply(home, &op.TurnBudgets{Turns: turns})
	for _, turn := range turns {
		b := s.budgets[home.kept.ResourceIndex().ResourceByID([16]byte(turn.Id)).Name]
		if w := b.windows[turn.Window]; w != nil {
			w.from = len(b.booked)
		}
	}
}

// openGates applies an OpenGate for the jobs that may leave their gate or for which the shard has to ask for
// money, as the duty does.
func (s *sliceSim) openGates(sh *sliceShard) (opened bool) {
	s.t.Helper()
	snapshot := sh.kept.Snapshot()
	view := op.NewSnapshotState(snapshot, sh.kept.ResourceIndex(), s.clockNs)
	o := &op.OpenGate{}
	for _, g := range sh.kept.Gates() {
		ids, err := snapshot.AtGate(g.Kind, g.Name, 10)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, id := range ids {
			j, err := snapshot.Job(id)
			if err != nil {
				s.t.Fatal(err)
			}
			if opens, _, err := view.Opens(j); err != nil {
				s.t.Fatal(err)
			} else if opens {
				o.JobIds = append(o.JobIds, j.Id)
			}
		}
	}
	if err := snapshot.Close(); err != nil {
		s.t.Fatal(err)
	}
	if len(o.JobIds) > 0 {
		s.apply(sh, o)
	}
	return len(o.JobIds) > 0
}

// rest delivers all messages and runs all jobs. It takes as long as needed: days of the history's clock may
// pass until there is money for all.
func (s *sliceSim) rest() {
	s.t.Helper()
	for round := 0; ; round++ {
		s.hear()
		waiting := 0
		for _, sh := range s.shards {
			s.fetch(sh, 100)
			s.finish(sh)
			s.balance(sh)
		}
		for id, m := range s.jobs {
			switch s.job(s.shards[m.shard], id).GetState() {
			case job.Pending, job.Active, job.Retrying:
				waiting++
			}
		}
		if waiting == 0 && s.quiet() {
			break
		}
		if round == 400 {
			s.t.Fatalf("%d jobs still wait", waiting)
		}
		s.clockNs += int64([]time.Duration{time.Second, 2 * time.Second, 11 * time.Second, 5 * time.Hour}[round%4])
		s.turn()
	}
	s.hear()
	s.settled()
	for _, sh := range s.shards {
		s.crash(sh)
	}
}

// hear delivers all messages, and those that follow from them.
func (s *sliceSim) hear() {
	s.t.Helper()
	for quiet := false; !quiet; {
		quiet = true
		for _, sh := range s.shards {
			for _, from := range s.shards {
				for s.deliver(from, sh) {
					quiet = false
				}
			}
			if s.openGates(sh) {
				quiet = false
			}
		}
		s.conserved()
	}
}
