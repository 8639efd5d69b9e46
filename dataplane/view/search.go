package view

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

const (
	// maxPageBytes ends a page early: a thousand payloads of the largest size
	// would be a gigabyte. A page has at least one job.
	maxPageBytes = 8 << 20
	// maxPrefixCount is how many jobs of an id prefix, or of what few jobs have, are
	// counted, and sorted.
	maxPrefixCount = 10_000
	// maxQueueBranches is how many queues a search for a frequent state in all
	// queues asks one by one; with more of them it walks the jobs.
	maxQueueBranches = 32
)

// Search finds jobs. What is wrong with q is a VALIDATION_ERROR; a search that
// takes too long is OVERLOADED, and one before the view is built VIEW_BEHIND.
// Results are as of the last flush: call Wait to see more.
func (v *View) Search(ctx context.Context, q Query) (Page, error) {
	beyond, err := q.normalize()
	if err != nil {
		return Page{}, err
	}
	var page Page
	err = v.read(ctx, func(ctx context.Context, tx *sql.Tx) error {
		s := search{Query: q, tx: tx, beyond: beyond}
		branches, err := s.plan(ctx)
		if err != nil {
			return err
		}
		numbers, err := s.numbers(ctx, branches)
		if err != nil {
			return err
		}
		page, err = s.page(ctx, numbers)
		return err
	})
	if err != nil {
		return Page{}, err
	}
	return page, nil
}

// search is one search under way.
type search struct {
	Query
	tx       *sql.Tx
	beyond   int64
	total    int64
	estimate bool
}

// branch is a part of the search that one index yields in order of number, so
// that no part ever sorts or reads more than a page. It selects number.
type branch struct {
	from  string // up to and including a WHERE that ends in a condition
	args  []any
	table string // that number is taken from
}

// plan counts the result from the queues' counters and says where to find it.
func (s *search) plan(ctx context.Context) ([]branch, error) {
	switch {
	case s.Queues != nil && len(s.Queues) == 0:
		return nil, nil
	case s.narrowing().index != "":
		return s.planNarrow(ctx)
	case s.IDPrefix != "":
		return s.planPrefix(ctx)
	case s.Queues != nil:
		return s.planQueues(ctx)
	}
	counts, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	wanted := s.wanted()
	for _, state := range wanted {
		s.total += counts[state]
	}
	if s.Queue == "" && len(s.States) == 0 {
		return []branch{{from: "hot WHERE 1", table: "hot"}}, nil
	}
	var branches []branch
	for _, state := range wanted {
		if counts[state] == 0 {
			continue
		}
		more, err := s.planState(ctx, state)
		if err != nil {
			return nil, err
		}
		branches = append(branches, more...)
	}
	return branches, nil
}

// wanted are the states to find, spelled out.
func (s *search) wanted() []job.State {
	if len(s.States) > 0 {
		return s.States
	}
	var every []job.State
	for state := job.State_STATE_UNSPECIFIED + 1; state < job.States; state++ {
		every = append(every, state)
	}
	return every
}

// planState finds the jobs of one state, in one queue or in all.
func (s *search) planState(ctx context.Context, state job.State) ([]branch, error) {
	inQueue := func(name string) branch {
		return branch{from: "hot WHERE queue = ? AND state = ?", args: []any{name, state.Word()}, table: "hot"}
	}
	everywhere := branch{from: "hot WHERE state = ?", args: []any{state.Word()}, table: "hot"}
	if s.Queue != "" {
		return []branch{inQueue(s.Queue)}, nil
	}
	if rare(state) {
		everywhere.from += " AND " + rareStates
		return []branch{everywhere}, nil
	}
	var branches []branch
	err := each(ctx, s.tx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		branches = append(branches, inQueue(name))
		return err
	}, fmt.Sprintf("SELECT name FROM queue WHERE %s > 0 LIMIT %d", state.Word(), maxQueueBranches+1))
	if len(branches) > maxQueueBranches {
		return []branch{everywhere}, err
	}
	return branches, err
}

// counts are the jobs in each state, in the queue or in all.
func (s *search) counts(ctx context.Context) (counts [job.States]int64, err error) {
	var sums []string
	var into []any
	for state := job.State_STATE_UNSPECIFIED + 1; state < job.States; state++ {
		sums = append(sums, "coalesce(sum("+state.Word()+"), 0)")
		into = append(into, &counts[state])
	}
	query, args := "SELECT "+strings.Join(sums, ", ")+" FROM queue", []any{}
	if s.Queue != "" {
		query, args = query+" WHERE name = ?", append(args, s.Queue)
	}
	return counts, s.tx.QueryRowContext(ctx, query, args...).Scan(into...)
}

// planPrefix finds jobs by a prefix of their id: a range of the index on ids,
// counted and sorted if it is small. A prefix of very many jobs is dense, so a
// walk by number soon meets a page of them.
func (s *search) planPrefix(ctx context.Context) ([]branch, error) {
	// No character of an id sorts after "~".
	args := []any{s.IDPrefix, s.IDPrefix + "~"}
	filter := "d.id >= ? AND d.id < ?"
	if s.Queue != "" {
		filter, args = filter+" AND h.queue = ?", append(args, s.Queue)
	}
	if s.Queues != nil {
		names, err := list(s.Queues)
		if err != nil {
			return nil, err
		}
		filter, args = filter+" AND +h.queue IN "+fromList, append(args, names)
	}
	if len(s.States) > 0 {
		states, err := list(words(s.States))
		if err != nil {
			return nil, err
		}
		filter, args = filter+" AND h.state IN "+fromList, append(args, states)
	}
	var inRange int64
	err := s.tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT count(*), count(CASE WHEN %s THEN 1 END) FROM
		(SELECT number, id FROM document WHERE id >= ? AND id < ? LIMIT %d) d JOIN hot h ON h.number = d.number`,
		filter, maxPrefixCount+1), append(args[:len(args):len(args)], args[:2]...)...).Scan(&inRange, &s.total)
	if err != nil {
		return nil, err
	}
	if s.estimate = inRange > maxPrefixCount; s.estimate {
		return []branch{{from: "hot h CROSS JOIN document d ON d.number = h.number WHERE " + filter, args: args, table: "h"}}, nil
	}
	return []branch{{from: "document d INDEXED BY document_by_id CROSS JOIN hot h ON h.number = d.number WHERE " + filter, args: args, table: "d"}}, nil
}

// merge is the statement that yields the numbers of all branches in order: up to
// one more than the page takes.
func (s *search) merge(branches []branch) (query string, args []any) {
	than, order := s.direction()
	var parts []string
	for _, b := range branches {
		parts = append(parts, fmt.Sprintf("SELECT number FROM (SELECT %[1]s.number AS number FROM %[2]s AND %[1]s.number %[3]s ? ORDER BY %[1]s.number %[4]s LIMIT %[5]d)",
			b.table, b.from, than, order, s.Limit+1))
		args = append(append(args, b.args...), s.beyond)
	}
	return fmt.Sprintf("%s ORDER BY number %s LIMIT %d", strings.Join(parts, " UNION ALL "), order, s.Limit+1), args
}

// direction is how a page compares and orders numbers.
func (s *search) direction() (than, order string) {
	if s.Order == Ascending {
		return ">", "ASC"
	}
	return "<", "DESC"
}

func (s *search) numbers(ctx context.Context, branches []branch) (numbers []int64, err error) {
	if len(branches) == 0 {
		return nil, nil
	}
	query, args := s.merge(branches)
	err = each(ctx, s.tx, func(rows *sql.Rows) error {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return err
		}
		numbers = append(numbers, n)
		return nil
	}, query, args...)
	return numbers, err
}

// errPageFull ends the scan of a page that has reached its size.
var errPageFull = errors.New("page full")

// page reads the jobs with these numbers, of which the last may be one more than
// the page takes.
func (s *search) page(ctx context.Context, numbers []int64) (Page, error) {
	page := Page{Jobs: []api.Job{}, Total: s.total, TotalIsEstimate: s.estimate}
	wanted := numbers[:min(len(numbers), s.Limit)]
	text, err := list(wanted)
	if err != nil {
		return Page{}, err
	}
	// The joins run in the order written: jobs come as the list has them.
	var found []*row
	size := 0
	err = each(ctx, s.tx, func(rows *sql.Rows) error {
		r := new(row)
		if err := scanRow(rows, r); err != nil {
			return err
		}
		if number := wanted[len(found)]; int64(r.job.Number) != number {
			return fmt.Errorf("the view has job number %d where it should have %d", r.job.Number, number)
		}
		if size += r.size(); size > maxPageBytes && len(found) > 0 {
			return errPageFull
		}
		found = append(found, r)
		return nil
	}, "SELECT "+rowColumns+` FROM json_each(?) p CROSS JOIN hot h ON h.number = p.value
		CROSS JOIN document d ON d.number = h.number LEFT JOIN work w ON w.number = h.number
		LEFT JOIN extra x ON x.number = h.number`, text)
	if err != nil && !errors.Is(err, errPageFull) {
		return Page{}, err
	}
	size = 0
	for _, r := range found {
		errs, bytes, err := s.errors(ctx, &r.job)
		if err != nil {
			return Page{}, err
		}
		if size += r.size() + bytes; size > maxPageBytes && len(page.Jobs) > 0 {
			break
		}
		doc, err := Document(&r.job, r.blobs, errs)
		if err != nil {
			return Page{}, err
		}
		page.Jobs, page.Numbers = append(page.Jobs, doc), append(page.Numbers, r.job.Number)
	}
	if n := len(page.Jobs); n < len(numbers) {
		page.HasMore = true
		page.Cursor = s.pageCursor(uint64(numbers[n-1]))
	}
	return page, nil
}

// errors reads a job's errors and tells how many bytes they have.
func (s *search) errors(ctx context.Context, j *job.Job) (errs []*job.AttemptError, bytes int, err error) {
	if j.Errors == 0 {
		return nil, 0, nil
	}
	err = each(ctx, s.tx, func(rows *sql.Rows) error {
		e := new(job.AttemptError)
		var backtrace, worker sql.NullString
		var started sql.NullInt64
		var outcome string
		if err := rows.Scan(&e.Attempt, &e.Error, &backtrace, &e.CreatedNs, &worker, &started, &outcome); err != nil {
			return err
		}
		e.Backtrace, e.WorkerId, e.StartedNs = backtrace.String, worker.String, started.Int64
		var ok bool
		if e.Outcome, ok = job.ParseOutcome(outcome); !ok {
			return fmt.Errorf("attempt %d of job number %d has outcome %q, which does not exist", e.Attempt, j.Number, outcome)
		}
		errs = append(errs, e)
		bytes += len(e.Error) + len(e.Backtrace)
		return nil
	}, "SELECT attempt, error, backtrace, created_ns, worker_id, started_ns, outcome FROM job_error WHERE id BETWEEN ? AND ? ORDER BY id",
		errorID(j.Number, 0), errorID(j.Number, 1<<errorShift-1))
	return errs, bytes, err
}
