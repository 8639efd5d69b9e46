package view

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

const (
	// maxPageBytes ends a page early, because a thousand payloads of the largest size would be a gigabyte. A
	// page has at least one job.
	maxPageBytes = 8 << 20
	// maxRange is the most jobs that a search examines one by one through an index that does not yield them
	// by number: the index on ids, or an index on a property that few jobs have. If no such index yields few
	// jobs and the counters say that the queues and states of the query have no more jobs than maxRange, the
	// search examines those.
	maxRange = 10_000
	// maxQueueBranches is the largest number of queues that a search for a frequent state in all queues reads
	// one by one. With more queues it walks the jobs.
	maxQueueBranches = 32

	// searchTime and searchRows limit the time of a search and the number of jobs it examines. At the limit
	// the search returns the jobs it has found and the cursor at which it continues.
	searchTime = 200 * time.Millisecond
	searchRows = 250_000
	// countTime and countRows limit the additional work of counting the jobs after a full page. A chunk that
	// began in time may take countChunk.
	countTime  = 3 * time.Millisecond
	countRows  = 10_000
	countChunk = 20 * time.Millisecond
)

// The reasons that a partial page gives.
const (
	reasonTime = "the time of one search is over"
	reasonRows = "as many jobs were looked at as one search may"
)

// search is one running search.
type search struct {
	Query
	tx          *sql.Tx
	limits      searchLimits
	countLimits searchLimits // of counting the other jobs, in addition to limits
	hash        uint64       // of everything a cursor is bound to
	began       time.Time
	busy        func() bool // reports whether jobs change meanwhile

	branches   []branch
	rest       conditions // conditions that jobs of the branches must still be checked against
	queueList  string     // Queues, as a list for fromList
	stateList  string     // States, as a list for fromList
	listed     int64      // jobs in the queues and states of the query
	countKnown bool       // the query has no other condition, so the counters give the number of jobs that fit
	// lo and hi bound the numbers still to examine: lo <= number < hi.
	lo, hi int64
	start  pageStart // where the page begins

	looked  int // jobs examined
	reason  string
	found   []foundJob // of the page and the job after it, in order
	counted int64      // jobs that fit from the start on, as far as they were counted
	whole   bool       // the total is exact
}

// searchLimits limits the cost of a search.
type searchLimits struct {
	time  time.Duration
	rows  int
	few   int           // jobs that may be examined one by one, in any order
	chunk time.Duration // time limit of one chunk, if it is longer than time
}

// foundJob is a job that a search has found, with its position in the order of the pages.
type foundJob struct {
	number int64
	value  int64 // the value by which the job is sorted, unless that is its number
	null   bool  // the job has no value
}

// seek finds a page of jobs and calls show with the search in the same transaction.
func (v *View) seek(ctx context.Context, q Query, show func(context.Context, *search) error) error {
	match, err := q.normalize()
	if err != nil {
		return err
	}
	// The time of a search begins when the search has a connection.
	return v.readWithin(ctx, v.limits.query+2*v.limits.search.time, func(ctx context.Context, tx *sql.Tx) error {
		s := &search{Query: q, tx: tx, limits: v.limits.search, countLimits: v.limits.count, began: time.Now(), busy: v.busy, hi: maxNumber}
		if err := s.begin(ctx); err != nil {
			return err
		}
		if err := s.plan(ctx, match); err != nil {
			return err
		}
		if err := s.look(ctx); err != nil {
			return err
		}
		return show(ctx, s)
	})
}

// begin finds where the page begins and which numbers cannot hold a job that fits.
func (s *search) begin(ctx context.Context) (err error) {
	var incarnation []byte
	if err := s.tx.QueryRowContext(ctx, "SELECT incarnation FROM cursor").Scan(&incarnation); err != nil {
		return err
	}
	s.hash = s.Query.hash(incarnation)
	if s.Below > 0 {
		s.hi = int64(min(s.Below, maxNumber))
	}
	if s.start, err = parsePageStart(s.Cursor, s.hash); err != nil {
		return api.Errorf(api.ValidationError, "%v", err)
	}
	s.start.restrict(s)
	return s.restrictToTimes(ctx)
}

// look finds the page.
func (s *search) look(ctx context.Context) error {
	switch {
	case len(s.branches) == 0:
		s.whole = true
		return nil
	case s.Sort != SortCreated:
		return s.sort(ctx)
	case s.rest.none() && s.countKnown:
		return s.lookUp(ctx)
	}
	return s.walk(ctx)
}

// Search finds jobs. A fault in q is a VALIDATION_ERROR, or an INVALID_FILTER if only PayloadJQ is wrong. A
// search that gets no connection in time is OVERLOADED, a search before the view is built VIEW_BEHIND, and a
// search that finds the file damaged UNHEALTHY. A search that takes too long returns a partial page. Results
// are as of the last flush: call Wait to see later changes.
func (v *View) Search(ctx context.Context, q Query) (page Page, err error) {
	err = v.seek(ctx, q, func(ctx context.Context, s *search) (err error) {
		page, err = s.page(ctx)
		return err
	})
	return page, err
}

// Found is a page of the ids and numbers of jobs.
type Found struct {
	IDs     []job.ID
	Numbers []uint64 // of IDs, by position
	Cursor  string   // for the next page; "" on the last
	HasMore bool
	Partial bool // the search took too long; it continues at Cursor
}

// Find is like Search, for callers that need no documents.
func (v *View) Find(ctx context.Context, q Query) (f Found, err error) {
	err = v.seek(ctx, q, func(ctx context.Context, s *search) error {
		wanted := s.found[:min(len(s.found), s.Limit)]
		text, err := list(numbersOf(wanted))
		if err != nil {
			return err
		}
		for _, k := range wanted {
			f.Numbers = append(f.Numbers, uint64(k.number))
		}
		f.Cursor = s.cursorAfter(len(wanted))
		f.HasMore, f.Partial = f.Cursor != "", s.partial()
		return each(ctx, s.tx, func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			id, err := job.ParseID(text)
			f.IDs = append(f.IDs, id)
			return err
		}, "SELECT d.id FROM json_each(?) p CROSS JOIN document d ON d.number = p.value", text)
	})
	return f, err
}

func numbersOf(jobs []foundJob) []int64 {
	numbers := make([]int64, len(jobs))
	for i, k := range jobs {
		numbers[i] = k.number
	}
	return numbers
}

// errPageFull ends the scan of a page that has reached its largest size.
var errPageFull = errors.New("page full")

// page reads the jobs that were found. The last of them may be one job more than the page takes.
func (s *search) page(ctx context.Context) (Page, error) {
	page := Page{Jobs: []api.Job{}, Total: s.total(), TotalIsEstimate: !s.whole, Partial: s.partial(), PartialReason: s.reason, CursorAfter: s.cursorAfter}
	if page.Partial && page.PartialReason == "" {
		page.PartialReason = reasonWindow
	}
	wanted := s.found[:min(len(s.found), s.Limit)]
	text, err := list(numbersOf(wanted))
	if err != nil {
		return Page{}, err
	}
	// SQLite runs the joins in the order written, so jobs come in the order of the list.
	var found []*row
	size := 0
	err = each(ctx, s.tx, func(rows *sql.Rows) error {
		r := new(row)
		if err := scanRow(rows, r); err != nil {
			return err
		}
		if number := wanted[len(found)].number; int64(r.job.Number) != number {
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
	// Read the errors, and convert the jobs to documents until the page has its size.
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
		page.Jobs = append(page.Jobs, doc)
		page.SortKeys = append(page.SortKeys, s.sortKeyOf(&r.job, wanted[len(page.SortKeys)]))
	}
	page.Cursor = s.cursorAfter(len(page.Jobs))
	page.HasMore = page.Cursor != ""
	return page, nil
}

// errors returns a job's errors and the number of their bytes.
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
