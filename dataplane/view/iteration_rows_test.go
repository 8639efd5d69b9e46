package view

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestScoreRows adds, changes and removes scores, and purges a job that has some.
func TestScoreRows(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 3)
	set := func(id job.ID, values ...float64) {
		h.change(id, func(tx *state.Tx, j *job.Job) {
			j.Details().Scores = uint32(len(values))
			scores := &state.Scores{JobId: j.Id}
			for i, v := range values {
				scores.Scores = append(scores.Scores, &job.Score{Dimension: fmt.Sprint("d", i), Value: v, Scorer: strings.Repeat("me", i), CreatedNs: tx.ClockNs()})
			}
			if len(values) == 0 {
				scores = nil
			}
			must(t, tx.PutScores(id, scores))
		}, evScored)
	}
	set(ids[0], 0.5, -1.25)
	set(ids[1], 1)
	row := func(id job.ID, number, position int, value, scorer, at string) string {
		return fmt.Sprintf("%d|%s|d%d|%s|%s|1970-01-01T00:00:00.%s000000Z", number*128+position, id, position, value, scorer, at)
	}
	const all = "SELECT * FROM job_scores"
	one := row(ids[1], 2, 0, "1", "", "003")
	h.says(all, row(ids[0], 1, 0, "0.5", "", "002")+"\n"+row(ids[0], 1, 1, "-1.25", "me", "002")+"\n"+one)
	h.same()
	set(ids[0], 3) // fewer scores
	h.says(all, row(ids[0], 1, 0, "3", "", "004")+"\n"+one)
	h.same()
	set(ids[0]) // no scores, of a job without any other row in extra
	h.says(all, one)
	h.same()
	set(ids[0], 4)
	h.change(ids[0], func(_ *state.Tx, j *job.Job) { j.Details().ProviderErrors = 1 }, evGated)
	h.says("SELECT count(*) FROM job_scores", "2")
	set(ids[0]) // no scores, of a job that keeps its row in extra
	h.says(all, one)
	h.same()
	set(ids[2], 9)
	h.ack2(ids[1])
	h.commit(func(tx *state.Tx) { // a purge
		j, err := tx.Job(ids[1])
		must(t, err)
		must(t, tx.DeleteJob(j, evPurged))
	})
	h.says("SELECT job_id, value FROM job_scores", ids[2].String()+"|9")
	h.says("SELECT count(*) FROM job_score", "1")
	h.same()
}

// iterationsOf holds the iterations of one job and counts how often the writer has read one.
type iterationsOf struct {
	all  []*job.Iteration
	read int
}

func (i *iterationsOf) Iterations(_ job.ID, after uint32) iter.Seq2[*job.Iteration, error] {
	return func(yield func(*job.Iteration, error) bool) {
		for _, it := range i.all {
			if it.Number <= after {
				continue
			}
			if i.read++; !yield(it, nil) {
				return
			}
		}
	}
}

func (i *iterationsOf) end(n int, createdNs int64) {
	for range n {
		number := uint32(len(i.all) + 1)
		i.all = append(i.all, &job.Iteration{Number: number, Status: job.IterationStatus(1 + number%3), CreatedNs: createdNs + int64(number),
			Checkpoint: payload(fmt.Sprint(number)), Usage: &job.Usage{InputTokens: int64(number), CostNanoUsd: 1_000_000_001}})
	}
}

// TestIterationRows takes a job through iterations and lets it begin again. The writer must read and write
// the new iterations only, even if rows of other iterations exist.
func TestIterationRows(t *testing.T) {
	t.Parallel()
	db, err := create(filepath.Join(t.TempDir(), "view"))
	must(t, err)
	defer func() { must(t, db.close()) }()
	w := db.writer
	rows := func(number int) (all string) {
		t.Helper()
		rows, err := w.conn.QueryContext(context.Background(), "SELECT id & 1048575, status, checkpoint, trace, input_tokens, cost_nano_usd, created_ns FROM job_iteration WHERE id >> 20 = ?", number)
		must(t, err)
		defer rows.Close()
		for rows.Next() {
			var n, tokens, cost, at int64
			var status, checkpoint string
			var trace sql.NullString
			must(t, rows.Scan(&n, &status, &checkpoint, &trace, &tokens, &cost, &at))
			all += fmt.Sprintln(n, status, checkpoint, trace.Valid, tokens, cost, at)
		}
		must(t, rows.Err())
		return all
	}
	want := func(of *iterationsOf) (all string) {
		for _, it := range of.all {
			all += fmt.Sprintln(it.Number, it.Status.Word(), string(it.Checkpoint.Data), false, it.Usage.InputTokens, it.Usage.CostNanoUsd, it.CreatedNs)
		}
		return all
	}
	of, other := &iterationsOf{}, &iterationsOf{}
	other.end(3, 500)
	must(t, w.iterations(other, 8, touchedJob{}))
	must(t, w.iterations(other, 6, touchedJob{}))
	for _, step := range []struct {
		name  string
		do    func()
		again bool
		read  int // the number of iterations that the writer must read
	}{
		{"the first", func() { of.end(1, 1000) }, false, 1},
		{"two more", func() { of.end(2, 1000) }, false, 2},
		{"nothing new", func() {}, false, 0},
		{"many more", func() { of.end(100, 1000) }, false, 100},
		{"begun again, fewer", func() { of.all = nil; of.end(2, 2000) }, true, 2},
		{"begun again, as many", func() { of.all = nil; of.end(2, 3000) }, true, 2},
		{"begun again, as many, at the same time", func() { of.all = nil; of.end(2, 3000); of.all[0].Status = job.Continue }, true, 2},
		{"begun again, more", func() { of.all = nil; of.end(3, 4000) }, true, 3},
	} {
		step.do()
		of.read = 0
		must(t, w.iterations(of, 7, touchedJob{restarted: step.again}))
		if got, want := rows(7), want(of); got != want {
			t.Fatalf("%s: the rows are\n%s\nand should be\n%s", step.name, got, want)
		}
		if of.read != step.read {
			t.Errorf("%s: %d iterations were read, want %d", step.name, of.read, step.read)
		}
	}
	// A job's iterations are dropped with its row in extra, and those of its neighbours stay.
	for _, number := range []int64{6, 7, 8} {
		_, err := w.conn.ExecContext(context.Background(), "INSERT INTO extra (number) VALUES (?)", number)
		must(t, err)
	}
	must(t, w.forget(7))
	if rows(7) != "" || rows(6) != want(other) || rows(8) != want(other) {
		t.Errorf("after the job has gone there are\n%s\n%s\n%s", rows(6), rows(7), rows(8))
	}
	must(t, (&emptyRows{iterations: []uint64{5, 6}}).forget(w))
	if rows(6) != "" || rows(8) != want(other) {
		t.Errorf("after one job has lost them there are\n%s\n%s", rows(6), rows(8))
	}
	must(t, (&emptyRows{extras: []uint64{8}}).forget(w))
	if rows(8) != "" {
		t.Errorf("after a job has lost all that few have there are\n%s", rows(8))
	}
	of.all = []*job.Iteration{{Number: 1 << iterationShift}}
	if err := w.iterations(of, 7, touchedJob{restarted: true}); err == nil || !strings.Contains(err.Error(), "room") {
		t.Errorf("an iteration beyond what ids have room for: %v", err)
	}
}

// TestIterationsOfTheStore runs iterations of two jobs, flushes now and then, lets one job begin again, and
// purges the other.
func TestIterationsOfTheStore(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 2)
	goOn := func(id job.ID, checkpoint string) {
		h.fetch(id, "w")
		h.change(id, func(tx *state.Tx, j *job.Job) {
			it := &job.Iteration{Number: j.Detail.GetIteration() + 1, Status: job.Continue, CreatedNs: tx.ClockNs(), CheckpointIn: j.Detail.GetCheckpointIn(),
				Usage: &job.Usage{InputTokens: 7, CostNanoUsd: 1_500_000_000}}
			if checkpoint != "" {
				it.Checkpoint, it.CheckpointIn = payload(checkpoint), it.Number
			}
			j.Details().CheckpointIn = it.CheckpointIn
			must(t, tx.PutIteration(j, it))
			j.State = job.Pending
		}, evContinued)
	}
	const rows = "SELECT job_id, iteration, status, checkpoint, input_tokens, cost_usd FROM job_iterations ORDER BY id"
	goOn(ids[0], "")
	goOn(ids[1], `"b"`)
	goOn(ids[0], `"a"`)
	a, b := ids[0].String(), ids[1].String()
	all := a + "|1|continue||7|1.5\n" + a + `|2|continue|"a"|7|1.5` + "\n"
	other := b + `|1|continue|"b"|7|1.5`
	h.says(rows, all+other)
	goOn(ids[0], "") // it shows the checkpoint of the iteration before
	all += a + `|3|continue|"a"|7|1.5` + "\n"
	h.says(rows, all+other)
	h.says("SELECT id FROM job_iterations WHERE job_id = '"+b+"'", fmt.Sprint(2<<20|1))
	h.same()
	h.reopen(func() { // the job begins again and has as many iterations as before when the view reads them
		h.change(ids[0], func(tx *state.Tx, j *job.Job) { must(t, tx.DeleteIterations(j)) }, evRevived)
		goOn(ids[0], `"c"`)
		goOn(ids[0], "")
		goOn(ids[0], "")
	})
	h.says(rows, strings.NewReplacer(`"a"`, `"c"`, "continue||", `continue|"c"|`).Replace(all)+other)
	h.same()
	h.change(ids[0], func(tx *state.Tx, j *job.Job) { must(t, tx.DeleteIterations(j)) }, evRevived)
	h.says(rows, other)
	h.same()
	goOn(ids[0], "")
	h.ack2(ids[1])
	h.commit(func(tx *state.Tx) {
		j, err := tx.Job(ids[1])
		must(t, err)
		must(t, tx.DeleteJob(j, evPurged))
	})
	h.says(rows, a+"|1|continue||7|1.5")
	h.same()
	if n := h.logged.rebuilt("it was asked for"); n != h.logged.rebuilt("") {
		t.Errorf("the view was built again instead of following:\n%s", h.logged)
	}
}
