package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// content returns everything in a store, one line for each pair.
func content(t testing.TB, s *Store) string {
	t.Helper()
	var b bytes.Buffer
	v := s.Snapshot()
	for kv, err := range v.All() {
		must(t, err)
		fmt.Fprintf(&b, "%x = %x\n", kv.Key, kv.Value)
	}
	must(t, v.Close())
	return b.String()
}

// workload commits the n-th entry of a fixed history that uses every kind of record. An entry depends on n
// alone.
func workload(t testing.TB, s *Store, n int) {
	t.Helper()
	tx := s.Begin(position(uint64(n)), header(int64(n)*10))
	if box := tx.Outbox(1); n%5 == 0 && box.Ops() > 0 {
		must(t, tx.TrimOutbox(1, box.Next-1))
	}
	rng := rand.New(rand.NewPCG(uint64(n), 0))
	for i := range 1 + rng.IntN(5) {
		j := newJob(n*10+i, fmt.Sprint("q", rng.IntN(3)))
		j.Priority = uint32(rng.IntN(job.Priorities))
		must(t, tx.PutBlob(j, job.Payload, &job.Blob{Data: bytes.Repeat([]byte{byte(n)}, rng.IntN(2000))}))
		if rng.IntN(4) == 0 {
			j.State, j.ScheduledNs = job.Scheduled, int64(n)*10+100
		}
		must(t, tx.CreateJob(j, enqueued))
	}
	for range rng.IntN(6) {
		id, ok, err := tx.NextReady(fmt.Sprint("q", rng.IntN(3)))
		must(t, err)
		if !ok {
			continue
		}
		activate(t, tx, id, int64(n)*10+500)
		switch rng.IntN(4) {
		case 0:
			complete(t, tx, id)
		case 1:
			j, err := tx.Job(id)
			must(t, err)
			must(t, tx.PutError(j, &job.AttemptError{Attempt: j.Attempt, Error: "no"}))
			j.State, j.ScheduledNs = job.Retrying, int64(n)*10+50
			must(t, tx.PutJob(j, failed, retrying))
		}
	}
	wander(t, tx, rng, n)
	must(t, tx.PutIdempotency([16]byte{byte(rng.IntN(20))}, &Idempotency{Result: make([]byte, rng.IntN(50)), ExpiresNs: int64(n) * 7}))
	must(t, tx.PutKey(&Key{Id: fmt.Sprint("k", rng.IntN(4)), CreatedNs: tx.ClockNs()}))
	if n%3 == 0 {
		must(t, tx.DeleteKey("k1"))
		must(t, tx.TrimFeed(tx.Head().FeedNextSeq-min(20, tx.Head().FeedNextSeq-1)))
	}
	must(t, tx.Commit())
}

// run applies the workload's entries from the store's position up to last.
func run(t testing.TB, s *Store, last int) {
	t.Helper()
	for n := int(s.Applied().Index) + 1; n <= last; n++ {
		workload(t, s, n)
	}
}

// memTable is so small that a test's workload flushes in the background.
const memTable = 64 << 10

func openSmall(t testing.TB, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open("store", Options{FS: fs, MemTableBytes: memTable, headsKept: 3})
	must(t, err)
	return s
}

// TestCrashLeavesAPrefix takes the disk away at many moments, with and without the bytes that were not
// synced. The store must then hold exactly the state after some entry, not older than the last flush, and
// applying the rest of the log again must lead to the same bytes as without a crash.
func TestCrashLeavesAPrefix(t *testing.T) {
	t.Parallel()
	const entries = 120
	var want [entries + 1]string
	reference := open(t, vfs.NewMem())
	want[0] = content(t, reference)
	for n := 1; n <= entries; n++ {
		run(t, reference, n)
		want[n] = content(t, reference)
	}
	check(t, reference)
	must(t, reference.Close())

	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 0))
			fs := vfs.NewCrashableMem()
			s := openSmall(t, fs)
			flushed := 0
			for done := 0; done < entries; {
				done = min(entries, done+1+rng.IntN(15))
				run(t, s, done)
				if rng.IntN(3) == 0 {
					must(t, s.Flush())
					flushed = done
				}
				crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				must(t, s.Close()) // of the file system that did not crash
				fs = crashed
				s = openSmall(t, fs)
				left := int(s.Applied().Index)
				if left < flushed || left > done {
					t.Fatalf("after a crash at entry %d, flushed at %d, the store is at %d", done, flushed, left)
				}
				if content(t, s) != want[left] {
					t.Fatalf("after a crash at entry %d the store is not as entry %d left it", done, left)
				}
				check(t, s)
				done = left
			}
			must(t, s.Close())
		})
	}
}

// TestFlushIsDurable loses everything that was not synced right after a Flush.
func TestFlushIsDurable(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	run(t, s, 10)
	must(t, s.Flush())
	want := content(t, s)
	run(t, s, 15)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.Close())
	s = open(t, crashed)
	if s.Applied() != position(10) || content(t, s) != want {
		t.Errorf("after a flush and a crash the store is at %v", s.Applied())
	}
	must(t, s.Close())
}

// TestDirectoriesAreDurable flushes a new store below directories that are new too, and loses all bytes that
// were not synced.
func TestDirectoriesAreDurable(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s, err := Open("ns/default/0", Options{FS: fs})
	must(t, err)
	run(t, s, 3)
	must(t, s.Flush())
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	must(t, s.Close())
	s, err = Open("ns/default/0", Options{FS: crashed})
	must(t, err)
	if s.Applied() != position(3) {
		t.Errorf("after a flush and a crash the store is at %v", s.Applied())
	}
	must(t, s.Close())
}

// TestCloseIsDurable closes the store and loses all bytes that were not synced.
func TestCloseIsDurable(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	run(t, s, 10)
	want := content(t, s)
	must(t, s.Close())
	must(t, s.Close()) // a second Close does nothing
	s = open(t, fs.CrashClone(vfs.CrashCloneCfg{}))
	if content(t, s) != want {
		t.Error("a closed store lost something")
	}
	must(t, s.Close())
}

// TestLostStoreIsNoNewStore opens a store whose marker names a missing database, which must be an error.
func TestLostStoreIsNoNewStore(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	run(t, s, 3)
	must(t, s.Close())
	must(t, fs.RemoveAll("store/db-000001"))
	if s, err := Open("store", Options{FS: fs}); err == nil {
		t.Errorf("a lost store was opened at %v", s.Applied())
	}
}
