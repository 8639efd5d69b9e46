package state

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/dataplane/job"
)

// iterate ends an iteration of a job, with a trace of so many bytes.
func iterate(t testing.TB, tx *Tx, id job.ID, trace int) {
	t.Helper()
	edit(t, tx, id, func(j *job.Job) {
		must(t, tx.PutIteration(j, &job.Iteration{
			Number: j.Detail.GetIteration() + 1, Status: job.Continue, Trace: &job.Blob{Data: make([]byte, trace)},
		}))
	})
}

// TestIterationsAreKept checks that the store keeps the iterations of several jobs in order and unchanged,
// through a crash and a restart. The store removes a job's iterations with the job or earlier, and the
// iterations of other jobs stay.
func TestIterationsAreKept(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs)
	update(t, s, func(tx *Tx) {
		for n := 1; n <= 3; n++ {
			create(t, tx, n, "q")
			iterate(t, tx, idOf(n), n)
		}
	})
	for range 300 { // their numbers have more than one byte
		update(t, s, func(tx *Tx) { iterate(t, tx, idOf(2), 0) })
	}
	check(t, s)
	must(t, s.Close())
	s = open(t, fs)
	defer func() { must(t, s.Close()) }()
	wantIterations(t, s, 1, 301, 1)

	v := s.Snapshot()
	next := uint32(299)
	for it, err := range v.Iterations(idOf(2), 298) {
		must(t, err)
		if it.Number != next {
			t.Errorf("iteration %d where %d is next", it.Number, next)
		}
		next++
	}
	must(t, v.Close())
	if next != 302 {
		t.Errorf("after iteration 298 come those before %d", next)
	}

	update(t, s, func(tx *Tx) {
		edit(t, tx, idOf(2), func(j *job.Job) { must(t, tx.DeleteIterations(j)) })
		iterate(t, tx, idOf(2), 7) // in the same entry
		j, err := tx.Job(idOf(2))
		must(t, err)
		if it, err := tx.Iteration(j, 1); err != nil || len(it.GetTrace().GetData()) != 7 {
			t.Errorf("the entry does not see what it has put: %v, %v", it, err)
		}
		if it, err := tx.Iteration(j, 2); it != nil || err != nil {
			t.Errorf("the entry sees what it has removed: %v, %v", it, err)
		}
		edit(t, tx, idOf(3), func(j *job.Job) { j.State = job.Dead }, died)
		j, err = tx.Job(idOf(3))
		must(t, err)
		must(t, tx.DeleteJob(j, died))
	})
	check(t, s)
	wantIterations(t, s, 1, 1, 0)
}

// wantIterations checks the number of iterations of the first jobs.
func wantIterations(t testing.TB, s *Store, counts ...int) {
	t.Helper()
	for i, want := range counts {
		kept, err := s.Iterations(idOf(i + 1))
		if err != nil || len(kept) != want {
			t.Errorf("job %d has %d iterations, want %d: %v", i+1, len(kept), want, err)
		}
	}
}

// An op that sends away a job with iterations or scores, or puts an iteration out of turn, stops the replica.
func TestIterationsStay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(tx *Tx, j *job.Job) error
		want string
	}{
		"out of turn": {func(tx *Tx, j *job.Job) error { return tx.PutIteration(j, &job.Iteration{Number: 3}) }, "put iteration 3"},
		"sent away":   {func(tx *Tx, j *job.Job) error { return tx.ForwardJob(j, 1, "r") }, "stay on their shard"},
	} {
		s := open(t, vfs.NewMem())
		update(t, s, func(tx *Tx) {
			create(t, tx, 1, "q")
			iterate(t, tx, idOf(1), 1)
		})
		tx := begin(s)
		j, err := tx.Job(idOf(1))
		must(t, err)
		if err := c.do(tx, j); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if tx.Commit() == nil {
			t.Errorf("%s: the entry was committed", name)
		}
		must(t, s.Close())
	}
}

// Check compares a job's own counts of iterations and scores with the stored ones.
func TestCheckFindsIterations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(b *pebble.Batch) error
		want string
	}{
		"lost": {func(b *pebble.Batch) error { return b.Delete(appendIterationKey(nil, idOf(1), 2), nil) }, "has 1 iterations up to number 1 with 5 bytes, it says 2 up to 2 with 10"},
		"all lost": {func(b *pebble.Batch) error {
			return b.DeleteRange(appendIterationKey(nil, idOf(1), 0), iterationsEnd(idOf(1)), nil)
		}, "1 jobs count iterations and have none"},
		"another's": {func(b *pebble.Batch) error {
			return put(b, appendIterationKey(nil, idOf(2), 1), &job.Iteration{Number: 1})
		}, fmt.Sprintf("job %s has 1 iterations", idOf(2))},
		"renumbered": {func(b *pebble.Batch) error {
			return put(b, appendIterationKey(nil, idOf(1), 2), &job.Iteration{Number: 1})
		}, "has iteration 1 under number 2"},
		"scores lost": {func(b *pebble.Batch) error { return b.Delete(appendIDKey(nil, prefixScores, idOf(1)), nil) }, "1 jobs count scores and have none"},
		"scores of nobody": {func(b *pebble.Batch) error {
			return put(b, appendIDKey(nil, prefixScores, idOf(2)), &Scores{Scores: []*job.Score{{}}})
		}, "counts 0 scores and has 1"},
	} {
		s := open(t, vfs.NewMem())
		update(t, s, func(tx *Tx) {
			create(t, tx, 1, "q")
			create(t, tx, 2, "q")
			iterate(t, tx, idOf(1), 5)
			iterate(t, tx, idOf(1), 5)
			edit(t, tx, idOf(1), func(j *job.Job) { j.Details().Scores = 1 })
			must(t, tx.PutScores(idOf(1), &Scores{Scores: []*job.Score{{Dimension: "d"}}}))
		})
		check(t, s)
		b := s.gen.db.NewBatch()
		must(t, c.do(b))
		must(t, b.Commit(pebble.NoSync))
		v := s.Snapshot()
		if err := v.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		must(t, v.Close())
		must(t, s.Close())
	}
}
