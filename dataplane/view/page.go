package view

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

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

// Query says which jobs to find; all that is given must hold.
type Query struct {
	Queue string
	// Queues are the queues to look in: what the asker may see, by name. Nil is
	// every queue, an empty list none; at most job.MaxQueues. The pages of a search
	// may come with different lists, for queues are created meanwhile.
	Queues   []string
	States   []job.State // any of them
	IDPrefix string

	UniqueKey string // it has, or had
	BatchID   job.ID // it is a member of; zero: any
	ParentID  job.ID // made it; zero: any
	ChainID   job.ID // it is a step of; zero: any
	// Its time is over after the one and before the other; zero: any.
	ExpireAfter, ExpireBefore time.Time

	Order  Order  // "": Descending
	Limit  int    // 1 to job.MaxSearchLimit; 0: job.DefaultSearchLimit
	Cursor string // of the page before
}

// Page is a part of what a query found.
type Page struct {
	Jobs    []api.Job
	Numbers []uint64 // of Jobs, by position
	// Total is how many jobs the filter finds on all pages. It is exact, but for
	// an id prefix, or a unique key, batch, parent, chain or time of expiry, that more
	// than maxPrefixCount jobs have: then TotalIsEstimate
	// is set and Total counts among the first of them only.
	Total           int64
	TotalIsEstimate bool
	Cursor          string // for the next page; "" on the last
	HasMore         bool
}

const idLength = len(job.IDPrefix) + 26

// normalize fills defaults in and refuses, all at once, what is wrong. The page
// begins beyond the number it returns.
func (q *Query) normalize() (beyond int64, err error) {
	var wrong []string
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if q.Limit == 0 {
		q.Limit = job.DefaultSearchLimit
	}
	if q.Limit < 1 || q.Limit > job.MaxSearchLimit {
		refuse("limit %d is not between 1 and %d", q.Limit, job.MaxSearchLimit)
	}
	if q.Order == "" {
		q.Order = Descending
	}
	if q.Order != Ascending && q.Order != Descending {
		refuse("order %q is neither %q nor %q", q.Order, Ascending, Descending)
	}
	q.States = slices.Compact(slices.Sorted(slices.Values(q.States)))
	for _, s := range q.States {
		if s <= job.State_STATE_UNSPECIFIED || s >= job.States {
			refuse("state %d does not exist", s)
		}
	}
	if len(q.Queues) > job.MaxQueues {
		refuse("%d queues are named, there are at most %d", len(q.Queues), job.MaxQueues)
	}
	if len(q.IDPrefix) > idLength {
		refuse("job_id_prefix has %d characters, an id has %d", len(q.IDPrefix), idLength)
	}
	if strings.HasPrefix(job.IDPrefix, q.IDPrefix) {
		q.IDPrefix = "" // every id starts so
	} else if text, ok := strings.CutPrefix(q.IDPrefix, job.IDPrefix); ok {
		q.IDPrefix = job.IDPrefix + strings.ToUpper(text)
	}
	if q.Order == Ascending {
		beyond = -1
	} else {
		beyond = math.MaxInt64
	}
	if q.Cursor != "" {
		if beyond, err = q.parseCursor(); err != nil {
			refuse("%v", err)
		}
	}
	if len(wrong) > 0 {
		return 0, api.Errorf(api.ValidationError, "%s", strings.Join(wrong, "; "))
	}
	switch {
	case q.Queue == "" || q.Queues == nil:
	case slices.Contains(q.Queues, q.Queue):
		q.Queues = nil
	default:
		q.Queues = []string{}
	}
	return beyond, nil
}

// A page's cursor is the number of its last job and a hash of the filter it
// belongs to, so that a cursor of one search cannot silently page through
// another. Numbers never change, so pages neither repeat nor omit a job that
// fits the filter throughout, whatever is written between them.
const (
	pageVersion = 1
	pageLength  = 1 + 8 + 8
)

func (q *Query) pageCursor(last uint64) string {
	buf := make([]byte, 0, pageLength)
	buf = append(buf, pageVersion)
	buf = binary.BigEndian.AppendUint64(buf, last)
	buf = binary.BigEndian.AppendUint64(buf, q.hash())
	return base64.RawURLEncoding.EncodeToString(buf)
}

// CursorAfter is the cursor of the page that begins beyond a job's number, in the
// query's order: for who shows a part of a page.
func (q Query) CursorAfter(number uint64) (string, error) {
	q.Cursor = ""
	if _, err := q.normalize(); err != nil {
		return "", err
	}
	return q.pageCursor(number), nil
}

var (
	errNotACursor    = errors.New("cursor is not one this server gave out: start again without it")
	errForeignCursor = errors.New("cursor belongs to another filter or order: repeat the search it came from, or start again without it")
)

func (q *Query) parseCursor() (last int64, err error) {
	buf, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || len(buf) != pageLength || buf[0] != pageVersion {
		return 0, errNotACursor
	}
	if binary.BigEndian.Uint64(buf[9:]) != q.hash() {
		return 0, errForeignCursor
	}
	if last = int64(binary.BigEndian.Uint64(buf[1:9])); last < 0 {
		return 0, errNotACursor
	}
	return last, nil
}

// hash is of what decides the order of all pages, in canonical form. Queues is
// not part of it: it may change.
func (q *Query) hash() uint64 {
	text := fmt.Sprintf("%q %v %q %q", q.Queue, q.States, q.IDPrefix, q.Order)
	if n := q.narrowing(); n.index != "" {
		text += fmt.Sprintf(" %s %q", n.where, n.args)
	}
	return xxhash.Sum64String(text)
}
