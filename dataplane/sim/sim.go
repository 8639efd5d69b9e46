// Package sim plays seeded random histories against the real state machine and
// an independent model of it. Everything that happens is drawn from one seed in
// one goroutine, so a failure can be played again. The machine is driven by the
// same encoded entries raft would hand it.
//
// Two stores follow one log. The first never stops; the second lags, crashes
// (losing what it had not flushed), restarts cleanly and is replaced by an image
// of the first. Whenever both stand at the same entry they must be equal byte for
// byte, and both must agree with the model.
package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/dataplane/view"
	"github.com/corvo/corvo/engine/entry"
)

// group names the simulated shard in every record that carries a name.
const group = "sim/0"

// start is the first entry's clock.
const start = int64(1_700_000_000) * int64(time.Second)

// simulation is one history.
type simulation struct {
	rng      *rand.Rand
	model    *model
	work     *workload
	log      [][]byte // entry i is log[i-1]
	clockNs  int64
	steady   *replica   // never crashes
	troubled *replica   // crashes, lags, is restored
	view     *view.View // follows the steady store; nil in histories without one
}

// replica is a store that follows the log, on a disk that can be crashed.
type replica struct {
	disk    *vfs.MemFS
	store   *state.Store
	machine *op.Machine
	durable uint64 // what a flush has promised: no crash may go back behind it
}

func openReplica(disk *vfs.MemFS) (*replica, error) {
	store, err := state.Open("store", state.Options{FS: disk})
	if err != nil {
		return nil, err
	}
	return &replica{disk: disk, store: store, machine: op.NewMachine(store)}, nil
}

func (r *replica) index() uint64 { return r.machine.Applied().Index }

// apply feeds the replica one entry of the log.
func (r *replica) apply(index uint64, encoded []byte) ([]any, error) {
	e, err := entry.Decode(encoded)
	if err != nil {
		return nil, err
	}
	return r.machine.Apply(entry.Applied{Group: group, Incarnation: e.Incarnation, Index: index, Term: 1}, e)
}

// Run plays a history of so many entries. With a viewDir a view follows it, in
// that directory on the disk. The error of a failed history names the step.
func Run(seed uint64, steps int, viewDir string) error {
	s := &simulation{rng: rand.New(rand.NewPCG(seed, 0)), model: newModel(start), clockNs: start + int64(time.Minute)}
	s.work = newWorkload(s.rng, s.model)
	var err error
	if s.steady, err = openReplica(vfs.NewCrashableMem()); err != nil {
		return err
	}
	if s.troubled, err = openReplica(vfs.NewCrashableMem()); err != nil {
		return err
	}
	if viewDir != "" {
		if err := s.watch(viewDir); err != nil {
			return err
		}
	}
	for step := range steps {
		if err := s.step(); err != nil {
			return fmt.Errorf("step %d of %d: %w", step, steps, err)
		}
	}
	if err := s.catchUp(s.troubled, uint64(len(s.log))); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	if err := s.inspect(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	if s.view != nil {
		if err := s.inspectView(); err != nil {
			return fmt.Errorf("the view, at the end: %w", err)
		}
	}
	return cmp.Or(s.steady.store.Close(), s.troubled.store.Close())
}

func (s *simulation) step() error {
	ops, clockNs, err := s.propose()
	if err != nil {
		return err
	}
	results, err := s.steady.apply(uint64(len(s.log)), s.log[len(s.log)-1])
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := s.judge(ops, clockNs, results); err != nil {
		return err
	}
	if err := s.trouble(); err != nil {
		return err
	}
	return s.inspect()
}

// propose draws an entry, appends it to the log and answers its ops and clock.
func (s *simulation) propose() (ops []op.Op, clockNs int64, err error) {
	switch n := s.rng.IntN(60); {
	case n == 0: // a day passes: idempotency keys are forgotten
		s.clockNs += int64(25 * time.Hour)
	case n < 40:
		s.clockNs += s.rng.Int64N(int64(3 * time.Second))
	}
	var b entry.Builder
	for range 1 + s.rng.IntN(6) {
		o := s.work.next()
		ops = append(ops, o)
		if err := cmp.Or(o.Validate(), b.Add(o.Number(), o.SizeVT(), o)); err != nil {
			return nil, 0, fmt.Errorf("the workload drew what no proposer lets pass: %T %v: %w", o, o, err)
		}
	}
	clockNs = s.clockNs
	if s.rng.IntN(10) == 0 {
		clockNs -= int64(time.Second) // a leader whose clock is behind
	}
	s.log = append(s.log, b.Finish(entry.Header{Level: op.FeatureLevel, Incarnation: entry.Incarnation{1}, ClockNs: clockNs}))
	return ops, clockNs, nil
}

// judge plays the entry on the model and holds the results against it. Ops that
// settle work apply first, the others in their order.
func (s *simulation) judge(ops []op.Op, clockNs int64, results []any) error {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	settlesFirst := func(i int) int { return min(int(ops[i].Class()), 1) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(settlesFirst(a), settlesFirst(b)) })
	for _, i := range order {
		want := s.model.apply(clockNs, ops[i])
		if err := s.model.agree(want, results[i]); err != nil {
			return fmt.Errorf("op %d, %T %v: %w", i, ops[i], ops[i], err)
		}
	}
	return nil
}

// trouble lets something happen to the second replica.
func (s *simulation) trouble() error {
	last := uint64(len(s.log))
	switch n := s.rng.IntN(20); {
	case n < 4: // it lags
		return nil
	case n < 6:
		behind := s.rng.Uint64N(last - s.troubled.index() + 1)
		return s.catchUp(s.troubled, s.troubled.index()+behind)
	case n < 8:
		if err := s.catchUp(s.troubled, last); err != nil {
			return err
		}
		if err := s.troubled.machine.Flush(); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		s.troubled.durable = last
		return nil
	case n < 11:
		if err := s.crash(); err != nil {
			return fmt.Errorf("after a crash: %w", err)
		}
	case n < 12:
		if err := s.restart(); err != nil {
			return fmt.Errorf("after a restart: %w", err)
		}
	case n < 13:
		if err := s.restore(); err != nil {
			return fmt.Errorf("after a restore: %w", err)
		}
	}
	return s.catchUp(s.troubled, last)
}

// catchUp applies what a replica has not seen, up to the given index.
func (s *simulation) catchUp(r *replica, upTo uint64) error {
	for i := r.index() + 1; i <= upTo; i++ {
		if _, err := r.apply(i, s.log[i-1]); err != nil {
			return fmt.Errorf("apply entry %d again: %w", i, err)
		}
	}
	return nil
}

// crash stops the second replica without warning: its disk keeps what was synced
// and a random part of what was not.
func (s *simulation) crash() error {
	old := s.troubled
	disk := old.disk.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: s.rng.IntN(101),
		RNG:                 rand.New(rand.NewPCG(s.rng.Uint64(), 0)),
	})
	before := old.index()
	if err := old.store.Close(); err != nil {
		return err
	}
	r, err := openReplica(disk)
	if err != nil {
		return err
	}
	if r.index() < old.durable || r.index() > before {
		return fmt.Errorf("stands at entry %d; %d was flushed and %d was applied", r.index(), old.durable, before)
	}
	r.durable = old.durable
	s.troubled = r
	return nil
}

// restart closes and opens the second replica; nothing may be lost.
func (s *simulation) restart() error {
	before := s.troubled.index()
	if err := s.troubled.store.Close(); err != nil {
		return err
	}
	r, err := openReplica(s.troubled.disk)
	if err != nil {
		return err
	}
	if r.index() != before {
		return fmt.Errorf("stands at entry %d, stood at %d", r.index(), before)
	}
	r.durable = before
	s.troubled = r
	return nil
}

// restore replaces the second replica's content by an image of the first.
func (s *simulation) restore() error {
	image, err := s.steady.machine.Image()
	if err != nil {
		return err
	}
	var stream bytes.Buffer
	_, err = image.WriteTo(&stream)
	if err := cmp.Or(err, image.Close()); err != nil {
		return err
	}
	if err := s.troubled.machine.Restore(&stream); err != nil {
		return err
	}
	if got, want := s.troubled.machine.Applied(), s.steady.machine.Applied(); got != want {
		return fmt.Errorf("restored to %+v, the image was of %+v", got, want)
	}
	s.troubled.durable = s.troubled.index()
	return nil
}

// inspect checks every invariant that can be checked now.
func (s *simulation) inspect() error {
	steady := s.steady.store.Snapshot()
	defer steady.Close()
	if err := steady.Check(); err != nil {
		return fmt.Errorf("derived keys: %w", err)
	}
	if err := s.model.compare(steady); err != nil {
		return fmt.Errorf("store and model: %w", err)
	}
	if s.troubled.index() != s.steady.index() {
		return nil
	}
	troubled := s.troubled.store.Snapshot()
	defer troubled.Close()
	if err := sameBytes(steady, troubled); err != nil {
		return fmt.Errorf("the replicas differ: %w", err)
	}
	return nil
}

// pull turns a snapshot's pairs into a function.
func pull(v *state.Snapshot) (next func() (state.KV, error, bool), stop func()) {
	return iter.Pull2(v.All())
}
