package view

import (
	"database/sql/driver"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// emptyRows lists, for each table, the jobs that have nothing to store in the table but may have old rows
// there. Most of them never had any, so forget asks once for all of them: asking for each job would cost
// another statement for each job written.
type emptyRows struct{ extras, iterations, scores, works, errors []uint64 } // by number, rising

// note records which tables must have no rows of the job. more says whether the job has a row in extra.
func (l *emptyRows) note(j *job.Job, t touchedJob, more bool) {
	if t.whole && j.Blobs&attemptBlobs == 0 {
		l.works = append(l.works, j.Number)
	}
	if t.whole && j.Errors == 0 {
		l.errors = append(l.errors, j.Number)
	}
	if !more {
		l.extras = append(l.extras, j.Number) // a trigger drops iterations and scores with the row
		return
	}
	if t.whole && j.Detail.GetIterationsKept() == 0 {
		l.iterations = append(l.iterations, j.Number)
	}
	if t.whole && j.Detail.GetScores() == 0 {
		l.scores = append(l.scores, j.Number)
	}
}

// forget drops the rows of the listed jobs.
func (l *emptyRows) forget(w *writer) error {
	for i, numbers := range [len(emptyTables)][]uint64{l.extras, l.iterations, l.scores, l.works, l.errors} {
		if len(numbers) == 0 {
			continue
		}
		// If few jobs have rows in the table, there is usually none between the first and the last number. One
		// search finds that out faster than a search for each job.
		table := emptyTables[i]
		lo, hi := int64(numbers[0])<<table.shift, int64(numbers[len(numbers)-1]+1)<<table.shift
		var id [1]driver.Value
		some, err := w.first(w.findEmpty[i], id[:], lo, hi)
		if err == nil && some {
			var text string
			if text, err = list(numbers); err == nil {
				err = w.exec(w.dropEmpty[i], text)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", table.name, err)
		}
	}
	return nil
}

// emptyTables are the tables from which forget drops the rows of many jobs, in the order of emptyRows's
// fields. An id in a table consists of a job's number and, below it, shift more bits.
var emptyTables = [...]struct {
	name, id string
	shift    int
}{{"extra", "number", 0}, {"job_iteration", "id", iterationShift}, {"job_score", "id", errorShift}, {"work", "number", 0}, {"job_error", "id", errorShift}}

// emptyStatements returns two statements for each table: one finds whether rows lie between two ids, the other
// drops the rows of a list of jobs.
func (w *writer) emptyStatements() (all []statement) {
	for i, t := range emptyTables {
		all = append(all,
			statement{&w.findEmpty[i], fmt.Sprintf("SELECT %[2]s FROM %[1]s WHERE %[2]s >= ? AND %[2]s < ? LIMIT 1", t.name, t.id)},
			statement{&w.dropEmpty[i], fmt.Sprintf(`DELETE FROM %[1]s WHERE %[2]s IN (SELECT t.%[2]s FROM json_each(?) p
				CROSS JOIN %[1]s t ON t.%[2]s >= p.value << %[3]d AND t.%[2]s < (p.value + 1) << %[3]d)`, t.name, t.id, t.shift)})
	}
	return all
}
