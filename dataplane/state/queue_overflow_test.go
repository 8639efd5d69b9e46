package state

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// TestNextToDrop compares NextToDrop with a plain search over all pending jobs, with few of them in memory,
// in the middle of entries and after restarts.
func TestNextToDrop(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	fs := vfs.NewMem()
	reopen := func() *Store {
		s, err := Open("store", Options{FS: fs, headsKept: 2})
		must(t, err)
		return s
	}
	s := reopen()
	defer func() { must(t, s.Close()) }()
	pending := map[job.ID]*job.Job{}
	next := func() (oldest *job.Job) {
		for _, j := range pending {
			if oldest == nil || j.Priority > oldest.Priority || j.Priority == oldest.Priority && j.Number < oldest.Number {
				oldest = j
			}
		}
		return oldest
	}
	tx, made, most := begin(s), 0, 0
	if _, ok, err := tx.NextToDrop("unknown"); ok || err != nil {
		t.Errorf("a queue that does not exist has a job to drop: %v", err)
	}
	steps := 2000
	if testing.Short() {
		steps = 500
	}
	for range steps {
		switch n := rng.IntN(20); {
		case n < 8:
			made++
			j := newJob(made, "q")
			j.Priority = rng.Uint32N(job.Priorities)
			must(t, tx.CreateJob(j, enqueued))
			pending[idOf(made)] = j
			most = max(most, len(pending))
		case n < 15:
			id, ok, err := tx.NextToDrop("q")
			must(t, err)
			want := next()
			if ok != (want != nil) || ok && id != job.ID(want.Id) {
				t.Fatalf("job %s is next to drop (%v), want %v", id, ok, want)
			}
			if ok {
				edit(t, tx, id, func(j *job.Job) { j.State = job.Dead }, died)
				delete(pending, id)
			}
		case n < 17:
			id, ok, err := tx.NextReady("q")
			must(t, err)
			if ok {
				activate(t, tx, id, 1)
				delete(pending, id)
			}
		default:
			must(t, tx.Commit())
			check(t, s)
			if n == 19 {
				must(t, s.Close())
				s = reopen()
			}
			tx = begin(s)
		}
	}
	must(t, tx.Commit())
	check(t, s)
	if most < 10 {
		t.Errorf("at most %d jobs were pending at once", most)
	}
}
