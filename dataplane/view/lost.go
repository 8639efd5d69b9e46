package view

import (
	"database/sql/driver"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
)

// lost are the jobs that may have rows in a table, and have nothing any more to be
// there. Most of them never had: asking for each by itself would cost every job that
// is written a statement more.
type lost struct{ extras, iterations, scores, works, errors []uint64 } // by number, rising

// note takes down what a job does not have; more says whether it has a row in extra.
func (l *lost) note(j *job.Job, t touched, more bool) {
	if t.whole && j.Blobs&leftBehind == 0 {
		l.works = append(l.works, j.Number)
	}
	if t.whole && j.Errors == 0 {
		l.errors = append(l.errors, j.Number)
	}
	if !more {
		l.extras = append(l.extras, j.Number) // iterations and scores go with it
		return
	}
	if t.whole && j.Detail.GetIterationsKept() == 0 {
		l.iterations = append(l.iterations, j.Number)
	}
	if t.whole && j.Detail.GetScores() == 0 {
		l.scores = append(l.scores, j.Number)
	}
}

// forget drops the rows of all of them.
func (l *lost) forget(w *writer) error {
	for i, numbers := range [len(lostTables)][]uint64{l.extras, l.iterations, l.scores, l.works, l.errors} {
		if len(numbers) == 0 {
			continue
		}
		// Where few jobs have such a thing there is mostly none between the first
		// and the last, which is quicker to find out than that each has none.
		table := lostTables[i]
		lo, hi := int64(numbers[0])<<table.shift, int64(numbers[len(numbers)-1]+1)<<table.shift
		var id [1]driver.Value
		some, err := w.first(w.findLost[i], id[:], lo, hi)
		if err == nil && some {
			var text string
			if text, err = list(numbers); err == nil {
				err = w.exec(w.dropLost[i], text)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", table.name, err)
		}
	}
	return nil
}

// lostTables are the tables from which rows of many jobs are dropped, in the order of
// lost's fields. An id begins with a job's number, and has room for so many bits more.
var lostTables = [...]struct {
	name, id string
	shift    int
}{{"extra", "number", 0}, {"job_iteration", "id", iterationShift}, {"job_score", "id", errorShift}, {"work", "number", 0}, {"job_error", "id", errorShift}}

// lostStatements find out whether there are such rows between two ids, and drop those of
// a list of jobs.
func (w *writer) lostStatements() (all []statement) {
	for i, t := range lostTables {
		all = append(all,
			statement{&w.findLost[i], fmt.Sprintf("SELECT %[2]s FROM %[1]s WHERE %[2]s >= ? AND %[2]s < ? LIMIT 1", t.name, t.id)},
			statement{&w.dropLost[i], fmt.Sprintf(`DELETE FROM %[1]s WHERE %[2]s IN (SELECT t.%[2]s FROM json_each(?) p
				CROSS JOIN %[1]s t ON t.%[2]s >= p.value << %[3]d AND t.%[2]s < (p.value + 1) << %[3]d)`, t.name, t.id, t.shift)})
	}
	return all
}
