package sim

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

var rewrite = flag.Bool("rewrite", false, "write the fixtures anew")

// The fixtures are a log with ops of every kind, the store to which it leads, and a summary of the store. An
// earlier build wrote them, and every later build must read them. They are rewritten only if the formats
// deliberately start again.
const (
	fixtureLog   = "testdata/log.bin"
	fixtureStore = "testdata/store"
	fixtureHash  = "testdata/state.golden"
	fixtureMost  = 200 << 10 // total size in bytes
	// fixtureLogMost bounds the log, because the store is nearly as large.
	fixtureLogMost = 100 << 10
)

// The log must lead to the same state as when it was written.
func TestLogFixture(t *testing.T) {
	t.Parallel()
	if *rewrite {
		writeFixtures(t)
	}
	store := openFixture(t, t.TempDir())
	if err := replay(store, readLog(t)); err != nil {
		t.Fatal(err)
	}
	wantState(t, store)
}

// The old store must open and hold its old contents.
func TestStoreFixture(t *testing.T) {
	t.Parallel()
	if *rewrite {
		t.Skip("it is being written")
	}
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(fixtureStore)); err != nil {
		t.Fatal(err)
	}
	store := openFixture(t, dir)
	wantState(t, store)
	v := store.Snapshot()
	defer v.Close()
	if err := v.Check(); err != nil {
		t.Error(err)
	}
}

func TestFixturesAreSmall(t *testing.T) {
	size := int64(0)
	err := filepath.WalkDir("testdata", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil || size > fixtureMost {
		t.Errorf("the fixtures take %d bytes, at most %d are meant: %v", size, fixtureMost, err)
	}
}

func openFixture(t *testing.T, dir string) *state.Store {
	t.Helper()
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func replay(store *state.Store, log []logged) error {
	m := op.NewMachine(store)
	m.MaxLevel = maxLevel
	for i, l := range log {
		e, err := entry.Decode(l.encoded)
		if err != nil {
			return err
		}
		at := entry.Applied{Group: "sim/0", Incarnation: e.Incarnation, Index: uint64(i) + 1, Term: l.term}
		if _, err := m.Apply(at, e); err != nil {
			return err
		}
	}
	return nil
}

// wantState compares a store with the summary in the fixtures.
func wantState(t *testing.T, store *state.Store) {
	t.Helper()
	want, err := os.ReadFile(fixtureHash)
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(t, store); got != string(want) {
		t.Errorf("the state is\n%swhen the fixtures were written it was\n%s", got, want)
	}
}

func summary(t *testing.T, store *state.Store) string {
	t.Helper()
	sum := sha256.New()
	if err := record(sum, store); err != nil {
		t.Fatal(err)
	}
	h := store.Head()
	return fmt.Sprintf("entries %d\njobs %d\nevents [%d,%d)\nusage [%d,%d)\nlevel %d\nsha256 %x\n", h.GetIndex(), h.GetNextJobNumber()-1,
		h.GetFeedFirstSeq(), h.GetFeedNextSeq(), h.GetUsageFirstSeq(), h.GetUsageNextSeq(), h.GetFeatureLevel(), sum.Sum(nil))
}

// readLog reads entries: the term, the length and the bytes of each.
func readLog(t *testing.T) (log []logged) {
	t.Helper()
	f, err := os.Open(fixtureLog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		term, err := binary.ReadUvarint(r)
		if err == io.EOF {
			return log
		}
		if err != nil {
			t.Fatal(err)
		}
		size, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		l := logged{make([]byte, size), term}
		if _, err := io.ReadFull(r, l.encoded); err != nil {
			t.Fatal(err)
		}
		log = append(log, l)
	}
}

// writeFixtures takes the first history of two shards whose first shard has ops of every kind, including
// those between shards, and whose log is small.
func writeFixtures(t *testing.T) {
	t.Helper()
	var log []logged
	var encoded []byte
	for seed := uint64(1); log == nil; seed++ {
		s, err := newSimulation(seed)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.shards) != 2 || !playEveryKind(t, s) {
			continue
		}
		if encoded = encodeLog(s.shards[0].log); len(encoded) <= fixtureLogMost {
			log = s.shards[0].log
		}
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(fixtureStore); err != nil {
		t.Fatal(err)
	}
	store, err := state.Open(fixtureStore, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := replay(store, log); err != nil {
		t.Fatal(err)
	}
	golden := summary(t, store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{fixtureLog: encoded, fixtureHash: []byte(golden)} {
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// playEveryKind plays a history until its first shard has had an op of every kind, and reports whether it got
// there. It regularly raises the weights of the missing kinds, because with even weights nearly every history
// that is short enough to keep lacks some kind.
func playEveryKind(t *testing.T, s *simulation) bool {
	t.Helper()
	for i, sh := range s.shards {
		if err := sh.travels(s.shards[1-i]); err != nil {
			t.Fatal(err)
		}
	}
	whole := false
	for step := 0; step < 300 && !whole; step++ {
		if step%10 == 0 {
			lacking := missing(t, s.shards[0].log)
			for _, sh := range s.shards {
				for i, d := range draws() {
					sh.work.weight[i] = max(d.weight, 4) // none is left out
					if lacking[d.kind] {
						sh.work.weight[i] = 30
					}
				}
			}
			whole = len(lacking) == 0
		}
		if err := s.step(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	return whole
}

// travels plays a case that is too rare by chance: a job moves to another shard and is cancelled there, so
// that its batch, a job that waits for it and a webhook are notified here.
func (sh *shard) travels(to *shard) error {
	w := sh.work
	newJob := &op.NewJob{Queue: w.queues[0], Retry: &job.Retry{MaxAttempts: 1}}
	member, batch, waiting := w.id(newJob.Queue), w.id(newJob.Queue), w.id(newJob.Queue)
	waits := proto.Clone(newJob).(*op.NewJob)
	waits.DependsOn = []*op.Dependency{{JobId: member[:], Shard: sh.number}}
	hook := &state.Resource{Kind: state.ResourceKind_RESOURCE_KIND_WEBHOOK, Name: "all", Shards: uint32(len(sh.shards)),
		Webhook: &state.Webhook{Url: "https://hooks.example.invalid/", Events: []string{"*"}}}
	meta := func(ids ...[]byte) *op.Meta { return &op.Meta{Principal: "alice", Ids: ids} }
	for _, scene := range []struct {
		at *shard
		op op.Op
	}{
		{sh.shards[0], &op.PutResource{Meta: meta(w.bytes(16)), Resource: hook}},
		{sh, &op.Enqueue{Meta: meta(member[:], batch[:]), Batch: &op.NewBatch{}, Jobs: []*op.NewJob{newJob}}},
		{sh, &op.MoveJobs{Meta: meta(), Queue: to.work.queues[0], Shard: to.number, JobIds: idBytes([]job.ID{member})}},
		{sh, &op.Enqueue{Meta: meta(waiting[:]), Jobs: []*op.NewJob{waits}}},
		{to, &op.CancelJobs{Meta: meta(), JobIds: idBytes([]job.ID{member})}},
	} {
		if err := scene.at.commit(scene.op); err != nil {
			return err
		}
		if err := sh.rest(); err != nil {
			return err
		}
	}
	return nil
}

func hasEveryKind(t *testing.T, log []logged) bool {
	t.Helper()
	return len(missing(t, log)) == 0
}

// missing returns the kinds of ops that a log lacks.
func missing(t *testing.T, log []logged) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, k := range op.Kinds() {
		names[k.Name] = true
	}
	// Histories in package op test the ops by which shards share budgets. Bulk operations come from the first
	// shard, so no other shard sends it an open-bulk.
	for _, name := range []string{"return-budget", "grant-budget", "open-bulk"} {
		delete(names, name)
	}
	for _, l := range log {
		e, err := entry.Decode(l.encoded)
		if err != nil {
			t.Fatal(err)
		}
		for _, framed := range e.Ops {
			delete(names, op.KindOf(framed.Number).Name)
			o, err := op.Decode(framed)
			if err != nil {
				t.Fatal(err)
			}
			if delivered, ok := o.(*op.Deliver); ok {
				for _, item := range delivered.GetItems() {
					delete(names, op.KindOf(entry.Number(item.GetNumber())).Name)
				}
			}
		}
	}
	return names
}

// The log must contain every kind of op, apart from the kinds that missing excludes.
func TestLogFixtureIsWhole(t *testing.T) {
	t.Parallel()
	if !*rewrite && !hasEveryKind(t, readLog(t)) {
		t.Error("there is a kind of op that the log of the fixtures has none of; write them anew")
	}
}

// encodeLog returns the entries as in the fixture: term, length, bytes.
func encodeLog(log []logged) (encoded []byte) {
	for _, l := range log {
		encoded = binary.AppendUvarint(encoded, l.term)
		encoded = binary.AppendUvarint(encoded, uint64(len(l.encoded)))
		encoded = append(encoded, l.encoded...)
	}
	return encoded
}
