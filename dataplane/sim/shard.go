package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// shard is one simulated group: its log, the stores that follow it, and the model of their contents.
type shard struct {
	*simulation
	number   uint32
	model    *model
	work     *workload
	net      network
	log      []logged // entry i is log[i-1]
	term     uint64
	skewNs   int64           // offset of the leader's clock
	steady   *replica        // never crashes
	troubled *replica        // crashes, lags, is restored
	seen     progress        // counters of the steady store at the last check
	retuned  map[string]bool // queues whose settings changed since the last check
	keys     map[laneName]keyed
	heard    uint64 // first event of the feed that compareTold has not read
	told     uint64 // first event of the feed of which the model's webhooks were not notified
}

// logged is a committed entry.
type logged struct {
	encoded []byte
	term    uint64
}

// replica is a store that follows a log, on a disk that can crash.
type replica struct {
	disk    *vfs.MemFS
	store   *state.Store
	machine *op.Machine
	durable uint64 // index of the last flushed entry; a crash must not lose it
}

func openReplica(disk *vfs.MemFS) (*replica, error) {
	store, err := state.Open("store", state.Options{FS: disk})
	if err != nil {
		return nil, err
	}
	machine := op.NewMachine(store)
	machine.MaxLevel = maxLevel
	return &replica{disk: disk, store: store, machine: machine}, machine.CheckLevel()
}

// maxLevel is the highest feature level to which a history raises. It is above the level of this binary, so
// that a history can raise it.
const maxLevel = op.FeatureLevel + 3

func (r *replica) index() uint64 { return r.machine.Applied().Index }

func newShard(s *simulation, number uint32, m *model) (sh *shard, err error) {
	sh = &shard{simulation: s, number: number, model: m, term: 1, retuned: map[string]bool{}}
	sh.work = newWorkload(s.rng, sh)
	if sh.steady, err = openReplica(vfs.NewCrashableMem()); err != nil {
		return nil, err
	}
	sh.troubled, err = openReplica(vfs.NewCrashableMem())
	return sh, err
}

// incarnation returns the identity of the shard's history.
func (sh *shard) incarnation() entry.Incarnation { return entry.Incarnation{byte(sh.number) + 1} }

// apply applies one entry of the log to a replica.
func (sh *shard) apply(r *replica, index uint64) ([]any, error) {
	l := sh.log[index-1]
	e, err := entry.Decode(l.encoded)
	if err != nil {
		return nil, err
	}
	at := entry.Applied{Group: fmt.Sprintf("sim/%d", sh.number), Incarnation: e.Incarnation, Index: index, Term: l.term}
	return r.machine.Apply(at, e)
}

func (sh *shard) step() error {
	if sh.rng.IntN(15) == 0 {
		if err := sh.elect(); err != nil {
			return fmt.Errorf("new leader: %w", err)
		}
	}
	ops := sh.net.arriving(sh)
	for range 1 + sh.rng.IntN(6) {
		o := sh.work.next()
		if err := o.Validate(); err != nil {
			return fmt.Errorf("the workload drew what no proposer lets pass: %T %v: %w", o, o, err)
		}
		if sh.rng.IntN(8) == 0 {
			sh.net.delay(sh, o)
			continue
		}
		ops = append(ops, o)
	}
	if len(ops) > 0 {
		if err := sh.commit(ops...); err != nil {
			return err
		}
	}
	if err := sh.trouble(); err != nil {
		return err
	}
	return sh.inspect()
}

// elect starts a term. Entries that the former leader appended and did not commit are lost, and the new
// leader has a clock of its own.
func (sh *shard) elect() error {
	for range sh.rng.IntN(4) {
		sh.net.lose(sh, sh.work.next())
	}
	sh.term++
	switch sh.rng.IntN(3) {
	case 0:
		sh.skewNs = -sh.rng.Int64N(int64(10 * time.Second))
	case 1:
		sh.skewNs = sh.rng.Int64N(int64(10 * time.Second))
	case 2:
		sh.skewNs = 0
	}
	return sh.commit(&op.StartTerm{Meta: &op.Meta{Principal: "engine"}})
}

// commit appends an entry to the log, applies it to the steady replica and compares the results with the
// model.
func (sh *shard) commit(ops ...op.Op) error {
	var b entry.Builder
	for _, o := range ops {
		p := op.Proposal(o)
		if err := b.Add(p.Number(), p.SizeVT(), p); err != nil {
			return err
		}
		sh.kinds[op.KindFor(o).Name]++
	}
	clockNs := sh.clockNs + sh.skewNs
	seed := entry.Seed(sh.work.bytes(len(entry.Seed{})))
	level := sh.steady.machine.Level()
	sh.log = append(sh.log, logged{b.Finish(entry.Header{Level: level, Incarnation: sh.incarnation(), ClockNs: clockNs, Seed: seed}), sh.term})
	sh.transcript.Write(sh.log[len(sh.log)-1].encoded)
	results, err := sh.apply(sh.steady, uint64(len(sh.log)))
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	sh.model.begin(clockNs, seed)
	if err := sh.judge(ops, results); err != nil {
		return err
	}
	if err := errors.Join(sh.tell(), sh.forget(), sh.compareTold()); err != nil {
		return err
	}
	for i, o := range ops {
		sh.hear(o, results[i])
		sh.net.answer(sh, o)
	}
	if sh.watched != nil && sh.number == 0 {
		sh.watched.note(sh)
	}
	return nil
}

// judge applies the entry's ops to the model and compares the results. Ops that settle work apply first, the
// others in their order.
func (sh *shard) judge(ops []op.Op, results []any) error {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	settlesFirst := func(i int) int { return min(int(op.KindFor(ops[i]).Class), 1) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(settlesFirst(a), settlesFirst(b)) })
	for _, i := range order {
		fmt.Fprintf(sh.transcript, "%v\n", answerOf(ops[i], results[i]))
		want := sh.model.apply(ops[i])
		if err := sh.model.agree(want, results[i]); err != nil {
			return fmt.Errorf("op %d, %T %v: %w", i, ops[i], ops[i], err)
		}
	}
	return nil
}

// answerOf returns the answer that a client would get, as bytes.
func answerOf(o op.Op, result any) []byte {
	if err, refused := result.(error); refused {
		return []byte(err.Error())
	}
	data, err := op.KindFor(o).EncodeResult(result)
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

// trouble lets something happen to the troubled replica.
func (sh *shard) trouble() error {
	last := uint64(len(sh.log))
	switch n := sh.rng.IntN(21); {
	case n < 4: // it lags
		return nil
	case n < 6:
		behind := sh.rng.Uint64N(last - sh.troubled.index() + 1)
		return sh.catchUp(sh.troubled, sh.troubled.index()+behind)
	case n < 8:
		if err := sh.catchUp(sh.troubled, last); err != nil {
			return err
		}
		if err := sh.troubled.machine.Flush(); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		sh.troubled.durable = last
		return nil
	case n < 11:
		if err := sh.crash(); err != nil {
			return fmt.Errorf("after a crash: %w", err)
		}
	case n < 12:
		if err := sh.restart(); err != nil {
			return fmt.Errorf("after a restart: %w", err)
		}
	case n < 13:
		if err := sh.restore(); err != nil {
			return fmt.Errorf("after a restore: %w", err)
		}
	case n < 14:
		return sh.changeRoles()
	}
	return sh.catchUp(sh.troubled, last)
}

// changeRoles makes the other replica the steady one, so that later answers come from caches that a restart
// or an image has computed.
func (sh *shard) changeRoles() error {
	if err := sh.catchUp(sh.troubled, uint64(len(sh.log))); err != nil || sh.watched != nil {
		return err // a view stays with its store
	}
	sh.steady, sh.troubled = sh.troubled, sh.steady
	return nil
}

// catchUp applies the entries that a replica lacks, up to the given index.
func (sh *shard) catchUp(r *replica, upTo uint64) error {
	for i := r.index() + 1; i <= upTo; i++ {
		if _, err := sh.apply(r, i); err != nil {
			return fmt.Errorf("apply entry %d again: %w", i, err)
		}
	}
	return nil
}

// crash stops the troubled replica without warning. Its disk keeps the synced data and a random part of the
// data that was not synced.
func (sh *shard) crash() error {
	old := sh.troubled
	disk := old.disk.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: sh.rng.IntN(101),
		RNG:                 rand.New(rand.NewPCG(sh.rng.Uint64(), 0)),
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
	sh.troubled = r
	return nil
}

// restart closes and opens the troubled replica, which must lose nothing.
func (sh *shard) restart() error {
	before := sh.troubled.index()
	if err := sh.troubled.store.Close(); err != nil {
		return err
	}
	r, err := openReplica(sh.troubled.disk)
	if err != nil {
		return err
	}
	if r.index() != before {
		return fmt.Errorf("stands at entry %d, stood at %d", r.index(), before)
	}
	r.durable = before
	sh.troubled = r
	return nil
}

// restore replaces the troubled replica's content by an image of the steady one.
func (sh *shard) restore() error {
	image, err := sh.steady.machine.Image()
	if err != nil {
		return err
	}
	err = sh.troubled.machine.Restore(image)
	if err := cmp.Or(err, image.Close()); err != nil {
		return err
	}
	if got, want := sh.troubled.machine.Applied(), sh.steady.machine.Applied(); got != want {
		return fmt.Errorf("restored to %+v, the image was of %+v", got, want)
	}
	sh.troubled.durable = sh.troubled.index()
	return nil
}
