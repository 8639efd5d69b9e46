package view

import (
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// Order is the order of a page.
type Order string

// The orders, described for a page sorted by creation.
const (
	Descending Order = "desc" // newest first, the default
	Ascending  Order = "asc"
)

// Sort is the property by which a page is sorted. Jobs without that property come last in either order.
type Sort string

// The properties to sort by. SortCreated sorts by number.
const (
	SortCreated   Sort = "created_at"
	SortPriority  Sort = "priority"
	SortStarted   Sort = "started_at"
	SortCompleted Sort = "completed_at"
	SortFailed    Sort = "failed_at"
	SortAttempt   Sort = "attempt"
)

var sorts = []Sort{SortCreated, SortPriority, SortStarted, SortCompleted, SortFailed, SortAttempt}

func sortWords() string {
	words := make([]string, len(sorts))
	for i, s := range sorts {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

// Query selects jobs. A job fits if it meets every condition that is given. The zero value of a field is no
// condition.
type Query struct {
	Queue string
	// Queues are the names of the queues to search, which are those that the client may see. Nil means every
	// queue, an empty list none; at most job.MaxQueues. The pages of one search may come with different
	// lists, because queues are created meanwhile.
	Queues   []string
	States   []job.State // any of them
	Priority *int
	Tags     map[string]string // all of them
	IDPrefix string

	PayloadContains string // text that the payload's JSON contains
	PayloadJQ       string // a condition on the payload, see package jq

	UniqueKey string // the job holds it, or held it
	BatchID   job.ID // the job is a member of it; zero: any
	ParentID  job.ID // the job that created this one; zero: any
	ChainID   job.ID // the job is a step of it; zero: any
	WorkerID  string // the job runs or ran there

	HasErrors     *bool
	ErrorContains string // one of its errors contains it

	AttemptMin, AttemptMax *int

	// The job's time lies after the first of a pair and before the second, both exclusive; zero: any.
	CreatedAfter, CreatedBefore     time.Time
	ScheduledAfter, ScheduledBefore time.Time
	StartedAfter, StartedBefore     time.Time
	CompletedAfter, CompletedBefore time.Time
	ExpireAfter, ExpireBefore       time.Time // when the job expires

	Words string // a full-text query, see matchText
	Below uint64 // only jobs with lower numbers; 0: any

	Sort   Sort   // "": SortCreated
	Order  Order  // "": Descending
	Limit  int    // 1 to job.MaxSearchLimit; 0: job.DefaultSearchLimit
	Cursor string // of the previous page
}

// Page is one page of the jobs that a query found.
type Page struct {
	Jobs     []api.Job
	SortKeys []SortKey // of Jobs, by position
	// Total is the number of jobs on all pages, if the counters give it or counting them is quick. If neither
	// holds, TotalIsEstimate is set and Total is the number counted so far.
	Total           int64
	TotalIsEstimate bool
	Cursor          string // for the next page; "" on the last
	HasMore         bool
	// Partial reports that the search ended before the page was full, or sorted only a part of the jobs, because
	// it took too long.
	Partial       bool
	PartialReason string
	// CursorAfter returns the cursor that follows the first jobs of Jobs, for a caller that shows only a part
	// of the page.
	CursorAfter func(shown int) string
}

// SortKey is the value by which a job is sorted. Pages of several shards are merged by it.
type SortKey struct {
	Value int64
	Null  bool // the job has no value
}

// Compare compares two keys in an order, as cmp.Compare does.
func (k SortKey) Compare(other SortKey, order Order) int {
	return compareKeys(order, foundJob{value: k.Value, null: k.Null}, foundJob{value: other.Value, null: other.Null})
}

const idLength = len(job.IDPrefix) + 26

// normalize fills in defaults and reports all faults of the query at once. It returns the full-text query for
// FTS5.
func (q *Query) normalize() (match string, err error) {
	var w wrong
	if q.Limit == 0 {
		q.Limit = job.DefaultSearchLimit
	}
	if q.Limit < 1 || q.Limit > job.MaxSearchLimit {
		w.Invalid("limit", "%d is not between 1 and %d", q.Limit, job.MaxSearchLimit)
	}
	if q.Order == "" {
		q.Order = Descending
	}
	if q.Order != Ascending && q.Order != Descending {
		w.Invalid("order", "%q is neither %q nor %q", q.Order, Ascending, Descending)
	}
	if q.Sort == "" {
		q.Sort = SortCreated
	}
	if !slices.Contains(sorts, q.Sort) {
		w.Invalid("sort", "%q is none of %s", q.Sort, sortWords())
	}
	q.States = slices.Compact(slices.Sorted(slices.Values(q.States)))
	for _, s := range q.States {
		if s <= job.State_STATE_UNSPECIFIED || s >= job.States {
			w.Invalid("state", "%d does not exist", s)
		}
	}
	if len(q.Queues) > job.MaxQueues {
		w.Invalid("queues", "%d are named, there are at most %d", len(q.Queues), job.MaxQueues)
	}
	if len(q.IDPrefix) > idLength {
		w.Invalid("job_id_prefix", "has %d characters, an id has %d", len(q.IDPrefix), idLength)
	}
	if strings.HasPrefix(job.IDPrefix, q.IDPrefix) {
		q.IDPrefix = "" // every id begins with this
	} else if text, ok := strings.CutPrefix(q.IDPrefix, job.IDPrefix); ok {
		q.IDPrefix = job.IDPrefix + strings.ToUpper(text)
	}
	w.expression(q.PayloadJQ)
	if match, err = matchText(q.Words); err != nil {
		w.Invalid("q", "%v", err)
	}
	switch {
	case q.Words != "" && match == "" || q.Queue != "" && q.Queues != nil && !slices.Contains(q.Queues, q.Queue):
		q.Queues = []string{} // nothing fits
	case q.Queue != "":
		q.Queues = nil
	}
	return match, w.Err()
}
