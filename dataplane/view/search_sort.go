package view

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

// Only creation has an index that yields jobs in its order, because an index on a column that changes with
// every transition makes every transition more expensive. For every other sort, the search must examine all
// jobs that fit to find the first page, and again to find the next. If they are more than a search may
// examine, it takes as many as it may, by number. These jobs are a window: they are sorted among themselves,
// and all their pages are read before the next window begins. In this way every job is still shown exactly
// once.

// column returns the column by which jobs are sorted.
func (s Sort) column() string {
	switch s {
	case SortPriority:
		return "h.priority"
	case SortStarted:
		return "h.started_ns"
	case SortCompleted:
		return "h.completed_ns"
	case SortFailed:
		return "h.failed_ns"
	case SortAttempt:
		return "h.attempt"
	}
	return "h.created_ns"
}

// sortKeyOf returns the key by which a job is merged with jobs of other shards.
func (s *search) sortKeyOf(j *job.Job, k foundJob) SortKey {
	if s.Sort == SortCreated {
		return SortKey{Value: j.CreatedNs}
	}
	return SortKey{Value: k.value, Null: k.null}
}

// compare compares keys in the order of the page.
func (s *search) compare(a, b foundJob) int {
	return compareKeys(s.Order, a, b)
}

func compareKeys(order Order, a, b foundJob) int {
	c := 0
	switch {
	case a.null != b.null:
		if a.null {
			return 1
		}
		return -1
	case !a.null && a.value != b.value:
		c = 1
		if a.value < b.value {
			c = -1
		}
	case a.number < b.number:
		c = -1
	case a.number > b.number:
		c = 1
	}
	if order != Ascending {
		c = -c
	}
	return c
}

// sort finds a page that is not sorted by creation.
func (s *search) sort(ctx context.Context) error {
	bounded := s.start.bounded
	with := s.rest
	if s.start.cut {
		with.hotArgs, with.onHot = slices.Clone(with.hotArgs), slices.Clone(with.onHot)
		s.excludePreviousPages(&with)
	}
	// The statement counts jobs only if the counters do not give the number. sorted_by must not be the name
	// of a column, because in an expression SQLite prefers a table's column, such as json_each's value.
	columns := ", " + s.Sort.column() + " AS sorted_by, 0"
	if !s.countKnown {
		columns = ", " + s.Sort.column() + " AS sorted_by, count(*) OVER ()"
	}
	direction := s.direction()
	order := fmt.Sprintf("sorted_by IS NULL, sorted_by %s, {number} %s", direction, direction)
	err := s.examine(ctx, bounded, func(ctx context.Context, c chunk) (bool, error) {
		var more []foundJob
		var counted int64
		for i := range s.branches {
			var n int64
			query, args := s.branches[i].statement(columns, with, c, true, order, s.need())
			if err := each(ctx, s.tx, func(rows *sql.Rows) error {
				var k foundJob
				var value sql.NullInt64
				err := rows.Scan(&k.number, &value, &n)
				k.value, k.null = value.Int64, !value.Valid
				more = append(more, k)
				return err
			}, query, args...); err != nil {
				return false, err
			}
			counted += n
		}
		s.counted += counted
		s.found = append(s.found, more...)
		slices.SortFunc(s.found, s.compare)
		s.found = s.found[:min(len(s.found), s.need())]
		return false, nil
	})
	s.whole = s.countKnown || s.reason == "" && !s.cutShort()
	return err
}

// excludePreviousPages adds the condition that excludes the jobs of previous pages.
func (s *search) excludePreviousPages(c *conditions) {
	column, than := s.Sort.column(), "<"
	if s.Order == Ascending {
		than = ">"
	}
	last := s.start.last
	if last.null {
		c.hot(fmt.Sprintf("(%s IS NULL AND h.number %s ?)", column, than), last.number)
		return
	}
	c.hot(fmt.Sprintf("(%[1]s %[2]s ? OR %[1]s = ? AND h.number %[2]s ? OR %[1]s IS NULL)", column, than), last.value, last.value, last.number)
}
