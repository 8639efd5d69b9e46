package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// openJournal opens a store whose journal holds that many changes of lanes.
func openJournal(t testing.TB, fs vfs.FS, changes int) *Store {
	t.Helper()
	s, err := Open("store", Options{FS: fs, MemTableBytes: memTable, laneChangesKept: changes})
	must(t, err)
	return s
}

// laneHistory commits the n-th entry of a fixed history of jobs with fairness keys,
// whose lanes come and go, up to all of a queue at once.
func laneHistory(t testing.TB, s *Store, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	tx := s.Begin(position(uint64(n)), header(int64(n)*10))
	queue := func() string { return fmt.Sprint("q", rng.IntN(2)) }
	for i := range rng.IntN(4) {
		j := newJob(n*10+i, queue())
		j.FairnessKey, j.FairnessWeight = fmt.Sprint("key", n/10+rng.IntN(5)), uint32(rng.IntN(3))
		must(t, tx.CreateJob(j, enqueued))
	}
	for range rng.IntN(5) {
		id, ok, err := tx.NextReady(queue())
		must(t, err)
		if !ok {
			continue
		}
		edit(t, tx, id, func(j *job.Job) {
			j.State, j.Attempt, j.Lease = job.Active, j.Attempt+1, lease(int64(n)*10+500)
			must(t, tx.BeginService(j))
		}, started)
		if rng.IntN(8) > 0 {
			edit(t, tx, id, func(j *job.Job) {
				tx.EndService(j, true)
				j.State = job.Completed
			}, completed)
		}
	}
	must(t, tx.Commit())
}

// lanesIn lists the lanes of a store, read in every possible way.
func lanesIn(t testing.TB, s *Store) (all []string) {
	t.Helper()
	v := s.Snapshot()
	defer v.Close()
	for _, queue := range []string{"q0", "q1"} {
		lanes, err := v.lanesOf(queue)
		must(t, err)
		for _, key := range slices.Sorted(maps.Keys(lanes)) {
			l := lanes[key]
			all = append(all, l.String())
			one, err := v.Lane(queue, key)
			must(t, err)
			if one.String() != l.String() || s.tx.Lane(queue, key).String() != l.String() {
				t.Errorf("a lane is %v, %v and %v", l, one, s.tx.Lane(queue, key))
			}
		}
		if gone, err := v.Lane(queue, "nobody's"); gone != nil || err != nil {
			t.Errorf("nobody's lane is %v (%v)", gone, err)
		}
	}
	return all
}

// TestJournalOfLanes crashes a store with lanes again and again. The store must have the same bytes as one
// that did not crash, and the same lanes as one that writes each into its own record.
func TestJournalOfLanes(t *testing.T) {
	t.Parallel()
	const kept = 40
	entries := 300
	if testing.Short() {
		entries = 100
	}
	want := make([]string, entries+1)
	plain, reference := openJournal(t, vfs.NewMem(), 1), openJournal(t, vfs.NewMem(), kept)
	folds, forgotten := 0, 0
	for n := 1; n <= entries; n++ {
		before := reference.Head().LaneChanges
		laneHistory(t, plain, n)
		laneHistory(t, reference, n)
		if got, want := lanesIn(t, reference), lanesIn(t, plain); !slices.Equal(got, want) {
			t.Fatalf("after entry %d the lanes are\n%v\nand without a journal\n%v", n, got, want)
		}
		after := reference.Head().LaneChanges
		if after > kept {
			t.Fatalf("the journal has %d changes, %d are to be kept", after, kept)
		}
		if after < before {
			folds++
		}
		for _, l := range reference.laneJournal.lanes {
			if l.rec.Forgotten && l.stored {
				forgotten++
			}
		}
		want[n] = content(t, reference)
		check(t, reference)
	}
	if folds == 0 || forgotten == 0 {
		t.Errorf("the history folds the journal %d times, and forgets %d lanes that have records", folds, forgotten)
	}
	must(t, plain.Close())
	must(t, reference.Close())

	rng := rand.New(rand.NewPCG(7, 0))
	fs := vfs.NewCrashableMem()
	s := openJournal(t, fs, kept)
	for done := 0; done < entries; {
		for done = min(entries, done+1+rng.IntN(25)); s.Applied().Index < uint64(done); {
			laneHistory(t, s, int(s.Applied().Index)+1)
		}
		if rng.IntN(2) == 0 {
			must(t, s.Flush())
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		must(t, s.Close())
		fs = crashed
		s = openJournal(t, fs, kept)
		done = int(s.Applied().Index)
		if content(t, s) != want[done] {
			t.Fatalf("after a crash the store is not as entry %d left it", done)
		}
		check(t, s)
	}
	must(t, s.Close())
}
