package view

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/corvo/corvo/dataplane/job"
)

// Only creation has an index that yields jobs in its order: an index on what changes
// with every transition costs every transition. So by what else jobs are sorted, all
// that fit have to be looked at to find the first page, and again to find the next.
// Where they are more than a search may cost, it takes as many as it may, by number:
// those are a stretch, whose jobs are in order by themselves, and all their pages are
// read before the next stretch begins. So every job is shown once, all the same.

// column is what jobs are sorted by.
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

// keyOf is where a job lies among those of other shards.
func (s *search) keyOf(j *job.Job, k key) Key {
	if s.Sort == SortCreated {
		return Key{Value: j.CreatedNs}
	}
	return Key{Value: k.value, Null: k.null}
}

// compare orders keys as pages do.
func (s *search) compare(a, b key) int {
	return compareKeys(s.Order, a, b)
}

func compareKeys(order Order, a, b key) int {
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

// sort finds a page that is sorted by something else than creation.
func (s *search) sort(ctx context.Context) error {
	bounded := s.place.bounded
	with := s.rest
	if s.place.cut {
		with.hotArgs, with.onHot = slices.Clone(with.hotArgs), slices.Clone(with.onHot)
		s.beyond(&with)
	}
	// Jobs are counted only where the counters do not tell. The name must be no table's
	// column: in an expression SQLite takes that one, such as json_each's value.
	columns := ", " + s.Sort.column() + " AS sorted_by, 0"
	if !s.told {
		columns = ", " + s.Sort.column() + " AS sorted_by, count(*) OVER ()"
	}
	direction := s.direction()
	order := fmt.Sprintf("sorted_by IS NULL, sorted_by %s, {number} %s", direction, direction)
	err := s.steps(ctx, bounded, func(ctx context.Context, c chunk) (bool, error) {
		var more []key
		var counted int64
		for i := range s.branches {
			var n int64
			query, args := s.branches[i].statement(columns, with, c, true, order, s.need())
			if err := each(ctx, s.tx, func(rows *sql.Rows) error {
				var k key
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
	s.whole = s.told || s.reason == "" && !s.cutShort()
	return err
}

// beyond leaves out what pages before have shown.
func (s *search) beyond(c *conditions) {
	column, than := s.Sort.column(), "<"
	if s.Order == Ascending {
		than = ">"
	}
	last := s.place.last
	if last.null {
		c.hot(fmt.Sprintf("(%s IS NULL AND h.number %s ?)", column, than), last.number)
		return
	}
	c.hot(fmt.Sprintf("(%[1]s %[2]s ? OR %[1]s = ? AND h.number %[2]s ? OR %[1]s IS NULL)", column, than), last.value, last.value, last.number)
}
