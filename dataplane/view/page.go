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

// The orders: by creation.
const (
	Descending Order = "desc" // newest first, the default
	Ascending  Order = "asc"
)

// Sort is what a page is sorted by. Jobs that have none of it come last, in either
// order.
type Sort string

// The sorts. SortCreated is by number.
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

// Query says which jobs to find; all that is given must hold.
type Query struct {
	Queue string
	// Queues are the queues to look in: what the asker may see, by name. Nil is
	// every queue, an empty list none; at most job.MaxQueues. The pages of a search
	// may come with different lists, for queues are created meanwhile.
	Queues   []string
	States   []job.State // any of them
	Priority *int
	Tags     map[string]string // all of them
	IDPrefix string

	PayloadContains string // of its JSON text
	PayloadJQ       string // a condition on it, see package jq

	UniqueKey string // it has, or had
	BatchID   job.ID // it is a member of; zero: any
	ParentID  job.ID // made it; zero: any
	ChainID   job.ID // it is a step of; zero: any
	WorkerID  string // it ran, or runs, there

	HasErrors     *bool
	ErrorContains string // one of them

	AttemptMin, AttemptMax *int

	// After the one and before the other; zero: any.
	CreatedAfter, CreatedBefore     time.Time
	ScheduledAfter, ScheduledBefore time.Time
	StartedAfter, StartedBefore     time.Time
	CompletedAfter, CompletedBefore time.Time
	ExpireAfter, ExpireBefore       time.Time // its time is over

	Words string // a question to the full text, see matchText
	Below uint64 // only jobs of lower numbers; 0: any

	Sort   Sort   // "": SortCreated
	Order  Order  // "": Descending
	Limit  int    // 1 to job.MaxSearchLimit; 0: job.DefaultSearchLimit
	Cursor string // of the page before
}

// Page is a part of what a query found.
type Page struct {
	Jobs []api.Job
	Keys []Key // of Jobs, by position
	// Total is how many jobs the filter finds on all pages, as long as the counters tell,
	// or they are soon counted. Else TotalIsEstimate is set and it is those that were.
	Total           int64
	TotalIsEstimate bool
	Cursor          string // for the next page; "" on the last
	HasMore         bool
	// Partial says that the search ended before the page was full, as it took too long.
	Partial       bool
	PartialReason string
	// CursorAfter is the cursor behind the first of Jobs: for who shows a part of a page.
	CursorAfter func(shown int) string
}

// Key is a job's place in an order, by which pages of several shards are merged.
type Key struct {
	Value int64
	Null  bool // it has no value
}

// Compare is how keys follow each other.
func (k Key) Compare(other Key, order Order) int {
	return compareKeys(order, key{value: k.Value, null: k.Null}, key{value: other.Value, null: other.Null})
}

const idLength = len(job.IDPrefix) + 26

// normalize fills defaults in and refuses, all at once, what is wrong. It returns what
// the full text is asked for.
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
		q.IDPrefix = "" // every id starts so
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
