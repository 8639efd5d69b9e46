package view

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SQLite has no checksums. It notices that a page makes no sense, but not that one letter of it has changed.
// The flusher therefore compares some rows with the store from time to time, and all rows in the course of
// hours. It does so right after a flush, when the rows must agree exactly with the records of its snapshot.
const (
	// scrubEvery and scrubJobs limit the comparison to 1 % of a core, so a million jobs take eleven hours.
	scrubEvery = 10 * time.Second
	scrubJobs  = 256
	// scrubTime ends a scrub of large jobs early, because the feed waits meanwhile.
	scrubTime = 50 * time.Millisecond
	// A job with more than scrubIterations iterations is not compared.
	scrubIterations = 100
	// scrubAgain is the time for which no rows are compared after some were wrong. Without it, a mistake of
	// ours instead of the disk's would have the view built again and again.
	scrubAgain = 10 * time.Minute
)

// scrubbed is the progress of the comparison.
type scrubbed struct {
	to  job.ID // all jobs before it were compared
	due int64  // when to compare again, by clock
}

// scrub compares the rows of the next jobs, and of their queues, with the records. It returns a *staleError
// if rows differ.
func (v *View) scrub(records *state.JobIterator) error {
	now := clock()
	if now < v.scrubbed.due {
		return nil
	}
	v.scrubbed.due = now + int64(v.limits.scrub)
	wrong, err := v.scrubFrom(records, v.scrubbed.to)
	if err == nil && wrong != "" {
		v.scrubbed.due = clock() + int64(max(v.limits.scrub, scrubAgain))
		err = stale("it shows something else than the store: %s", wrong)
	}
	return err
}

// scrubFrom compares the jobs from an id on and returns a description of the first difference.
func (v *View) scrubFrom(records *state.JobIterator, from job.ID) (wrong string, err error) {
	s, err := newScratch()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.load(records, from); err != nil {
		return "", err
	}
	v.scrubbed.to = s.next
	// The writing connection sees the rows that were written last.
	tx, err := v.db.writer.conn.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	return s.compare(tx, from)
}

// scratch is a view of a few jobs in memory, made in the same way as any view.
type scratch struct {
	pool    *sql.DB
	writer  *writer
	ids     []string // of all jobs in the range, in order
	numbers []uint64 // of the jobs whose rows are in the scratch
	queues  []string
	next    job.ID // end of the range; zero: it ends with the last job
}

func newScratch() (_ *scratch, err error) {
	s := &scratch{}
	if s.pool, err = sql.Open("sqlite", ":memory:"); err != nil {
		return nil, err
	}
	s.pool.SetMaxOpenConns(1)
	if _, err = s.pool.Exec(tablesSQL); err == nil {
		s.writer, err = newWriter(s.pool)
	}
	if err != nil {
		return nil, errors.Join(err, s.pool.Close())
	}
	return s, nil
}

func (s *scratch) close() error { return errors.Join(s.writer.close(), s.pool.Close()) }

// load writes the rows of the jobs from an id on, and of their queues.
func (s *scratch) load(records *state.JobIterator, from job.ID) error {
	until := clock() + int64(scrubTime)
	queues := map[string]bool{}
	return s.writer.transact(func() error {
		for j, err := range records.JobsFrom(from) {
			if err != nil {
				return err
			}
			id := job.ID(j.Id)
			if len(s.ids) == scrubJobs || len(s.ids) > 0 && clock() > until {
				s.next = id
				break
			}
			s.ids, queues[j.Queue] = append(s.ids, id.String()), true
			if j.Detail.GetIterationsKept() > scrubIterations {
				continue
			}
			s.numbers = append(s.numbers, j.Number)
			l := &loadedJob{touchedJob: touchedJob{id: id}, number: j.Number, fresh: true, job: j}
			err := l.load(records)
			if err == nil {
				_, err = s.writer.job(records.Snapshot, l)
			}
			if err != nil {
				return fmt.Errorf("job %s: %w", id, err)
			}
		}
		if err := s.writer.putRows(); err != nil {
			return err
		}
		s.queues = slices.Sorted(maps.Keys(queues))
		for _, name := range s.queues {
			q, err := records.Queue(name)
			if err == nil && q != nil {
				err = s.writer.queue(q)
			}
			if err != nil {
				return fmt.Errorf("queue %q: %w", name, err)
			}
		}
		return nil
	})
}

// ofJobs selects the rows of a list of jobs in a table, ofQueues the rows of a list of queues. ofIDs selects
// the ids from one up to another, which it excludes, from the index on ids.
const (
	ofJobs   = "SELECT t.* FROM json_each(?) p CROSS JOIN %[1]s t ON t.%[2]s >= p.value << %[3]d AND t.%[2]s < (p.value + 1) << %[3]d ORDER BY t.%[2]s"
	ofQueues = "SELECT * FROM queue WHERE name IN " + fromList + " ORDER BY name"
	ofIDs    = "SELECT id FROM document INDEXED BY document_by_id WHERE id >= ? AND id < ? ORDER BY id"
	// notFound selects jobs that the indexes used by searches do not find.
	notFound = `SELECT h.number FROM json_each(?) p CROSS JOIN hot h NOT INDEXED ON h.number = p.value
		WHERE NOT EXISTS (SELECT 1 FROM hot i INDEXED BY hot_by_queue_state WHERE i.queue = h.queue AND i.state = h.state AND i.number = h.number)
		OR h.state <> 'pending' AND h.state <> 'completed' AND NOT EXISTS (SELECT 1 FROM hot i INDEXED BY hot_by_rare_state
			WHERE i.state <> 'pending' AND i.state <> 'completed' AND i.state = h.state AND i.number = h.number)`
)

// compare describes the first difference between the file, as tx sees it, and the scratch.
func (s *scratch) compare(tx *sql.Tx, from job.ID) (wrong string, err error) {
	numbers, err := list(s.numbers)
	if err != nil {
		return "", err
	}
	queues, err := list(s.queues)
	if err != nil {
		return "", err
	}
	// Both must have the same ids.
	end := job.IDPrefix + "~" // no character of an id sorts after it
	if s.next != (job.ID{}) {
		end = s.next.String()
	}
	ids, err := table(tx, ofIDs, from.String(), end)
	if err != nil {
		return "", err
	}
	if !slices.EqualFunc(ids, s.ids, func(row []any, id string) bool { return row[0] == id }) {
		return fmt.Sprintf("%d jobs from %s on, where there are %d", len(ids), from, len(s.ids)), nil
	}
	// The indexes must lead to every job.
	lost, err := table(tx, notFound, numbers)
	if err != nil {
		return "", err
	}
	if len(lost) > 0 {
		return fmt.Sprintf("no index leads to job number %v", lost[0][0]), nil
	}
	// Both must have the same rows in each table.
	for _, t := range [...]struct {
		name, key string
		shift     int
	}{
		{"hot", "number", 0}, {"document", "number", 0}, {"work", "number", 0}, {"extra", "number", 0},
		{"job_error", "id", errorShift}, {"job_score", "id", errorShift}, {"job_iteration", "id", iterationShift},
	} {
		wrong, err = s.differ(tx, t.name, fmt.Sprintf(ofJobs, t.name, t.key, t.shift), numbers)
		if wrong != "" || err != nil {
			return wrong, err
		}
	}
	return s.differ(tx, "queue", ofQueues, queues)
}

// differ describes the first row in which a query's results from the file and from the scratch differ.
func (s *scratch) differ(tx *sql.Tx, name, query, arg string) (wrong string, err error) {
	has, err := table(tx, query, arg)
	if err != nil {
		return "", err
	}
	should, err := table(s.writer.conn, query, arg)
	if err != nil {
		return "", err
	}
	for i, row := range should {
		if i >= len(has) || !reflect.DeepEqual(has[i], row) {
			return fmt.Sprintf("row %v of table %s", row[0], name), nil
		}
	}
	if len(has) > len(should) {
		return fmt.Sprintf("row %v of table %s, which should not be", has[len(should)][0], name), nil
	}
	return "", nil
}

// table returns all rows of a query.
func table(from interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, query string, args ...any) (all [][]any, err error) {
	rows, err := from.QueryContext(context.Background(), query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		row, into := make([]any, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
