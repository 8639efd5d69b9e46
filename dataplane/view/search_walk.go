package view

import (
	"context"
	"database/sql"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// minChunk and maxChunk bound the number of jobs that one statement examines between two looks at the
	// clock. After a chunk quicker than quickChunk the next is larger, after one slower than slowChunk it is
	// smaller. While no jobs change, chunks may take idleFactor times as long.
	minChunk   = 256
	maxChunk   = 16_384
	quickChunk = time.Millisecond
	slowChunk  = 4 * time.Millisecond
	idleFactor = 8
	// retryChunk bounds the next chunk of a search that could not finish even its first chunk in time.
	retryChunk = 8

	// maxNumber is greater than the number of any job, because the id of an iteration has no room for a
	// larger one.
	maxNumber = 1 << (63 - iterationShift)
)

// direction returns the order of a page's numbers as SQL.
func (s *search) direction() string {
	if s.Order == Ascending {
		return "ASC"
	}
	return "DESC"
}

// need returns the number of jobs to find: one more than the page takes.
func (s *search) need() int { return s.Limit + 1 }

// statement returns a query for up to limit jobs of the branch in a chunk that meet the conditions, in order.
// It selects their numbers and more columns. hot says whether these are columns of hot.
func (b *branch) statement(columns string, with conditions, c chunk, hot bool, order string, limit int) (query string, args []any) {
	if b.every && !hot && len(with.onHot) == 0 && len(with.onDocument) > 0 {
		b = &everyDocument // saves a seek for each job
	}
	rest, restArgs := with.where()
	query = fmt.Sprintf("SELECT %s AS number%s FROM %s%s WHERE %s AND %s >= ? AND %s < ?%s ORDER BY %s LIMIT %d",
		b.number(), columns, b.tables, with.joins(b, hot), b.where, b.key, b.key, rest, strings.ReplaceAll(order, "{number}", b.key), limit)
	return query, slices.Concat(b.between(c.lo, c.hi), restArgs)
}

// statement returns a query over all branches that selects only numbers.
func (s *search) statement(with conditions, c chunk, limit int) (query string, args []any) {
	direction := s.direction()
	var parts []string
	for i := range s.branches {
		text, more := s.branches[i].statement("", with, c, false, "{number} "+direction, limit)
		parts, args = append(parts, "SELECT number FROM ("+text+")"), append(args, more...)
	}
	if len(parts) == 1 {
		return parts[0], args
	}
	return fmt.Sprintf("%s ORDER BY number %s LIMIT %d", strings.Join(parts, " UNION ALL "), direction, limit), args
}

// lookUp finds a page if the branches yield only jobs that fit. It reads a page of each branch.
func (s *search) lookUp(ctx context.Context) error {
	s.whole = true
	query, args := s.lookUpQuery()
	return s.find(ctx, query, args)
}

func (s *search) lookUpQuery() (query string, args []any) {
	if b := &s.branches[0]; b.ranges != "" {
		// One statement reads at most a page of each range, for any number of ranges. A UNION would limit
		// their number.
		*b = branch{tables: "json_each(?) r CROSS JOIN hot h", key: "h.number", args: []any{b.ranges, s.lo, s.hi}, where: fmt.Sprintf(`h.number IN (SELECT x.number FROM hot x
			WHERE x.queue = r.value ->> 0 AND x.state = r.value ->> 1 AND x.number >= ? AND x.number < ? ORDER BY x.number %s LIMIT %d)`, s.direction(), s.need())}
	}
	return s.statement(s.rest, chunk{s.lo, s.hi}, s.need())
}

// find appends the jobs that a statement yields to those found.
func (s *search) find(ctx context.Context, query string, args []any) error {
	return each(ctx, s.tx, func(rows *sql.Rows) error {
		var k foundJob
		err := rows.Scan(&k.number)
		s.found = append(s.found, k)
		return err
	}, query, args...)
}

// chunk is a part of the candidates: those with numbers from lo on and below hi.
type chunk struct{ lo, hi int64 }

// next returns the next chunk, of up to size candidates.
func (s *search) next(ctx context.Context, size int) (c chunk, err error) {
	// Take an equal part of each branch, and end where the first of these parts ends.
	direction, offset := s.direction(), max(1, size/len(s.branches))-1
	var parts []string
	var args []any
	for i := range s.branches {
		b := &s.branches[i]
		if b.ranges != "" {
			var n int
			if err := s.tx.QueryRowContext(ctx, "SELECT json_array_length(?)", b.ranges).Scan(&n); err != nil {
				return chunk{}, err
			}
			parts = append(parts, fmt.Sprintf(`SELECT (SELECT x.number FROM hot x WHERE x.queue = r.value ->> 0 AND x.state = r.value ->> 1
				AND x.number >= ? AND x.number < ? ORDER BY x.number %s LIMIT 1 OFFSET %d) AS n FROM json_each(?) r`, direction, max(1, size/n)-1))
			args = append(args, s.lo, s.hi, b.ranges)
			continue
		}
		parts = append(parts, fmt.Sprintf("SELECT (SELECT %s FROM %s WHERE %s AND %s >= ? AND %s < ? ORDER BY %s %s LIMIT 1 OFFSET %d) AS n",
			b.number(), b.tables, b.where, b.key, b.key, b.key, direction, offset))
		args = append(args, b.between(s.lo, s.hi)...)
	}
	first := "max"
	if s.Order == Ascending {
		first = "min"
	}
	var end sql.NullInt64
	err = s.tx.QueryRowContext(ctx, fmt.Sprintf("SELECT %s(n) FROM (%s)", first, strings.Join(parts, " UNION ALL ")), args...).Scan(&end)
	switch {
	case !end.Valid:
		return chunk{s.lo, s.hi}, err
	case s.Order == Ascending:
		return chunk{s.lo, end.Int64 + 1}, err
	}
	return chunk{end.Int64, s.hi}, err
}

// passed records that the search has examined all of a chunk.
func (s *search) passed(c chunk) {
	if s.Order == Ascending {
		s.lo = c.hi
	} else {
		s.hi = c.lo
	}
}

// examine calls look with the remaining candidates, chunk by chunk, until look has enough or a limit is
// reached, which it records in s.reason. If bounded is true, the candidates are few enough to need no limit.
func (s *search) examine(ctx context.Context, bounded bool, look func(context.Context, chunk) (enough bool, err error)) error {
	// step examines the next chunk.
	step := func(ctx context.Context, size int) (enough bool, err error) {
		if !bounded {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, max(s.limits.time, s.limits.chunk))
			defer cancel()
		}
		c, err := s.next(ctx, size)
		if err != nil {
			return false, err
		}
		if enough, err = look(ctx, c); err == nil && !enough {
			s.passed(c)
		}
		return enough, err
	}
	// Adapt the size of the chunks to the time that they take.
	for size, passed := max(minChunk, s.need()), false; s.lo < s.hi; {
		if !bounded {
			size = min(size, s.limits.rows-s.looked)
		}
		began := time.Now()
		enough, err := step(ctx, size)
		switch {
		case err != nil && ctx.Err() == nil && interrupted(err) && passed:
			s.reason = reasonTime
			return nil
		case err != nil && ctx.Err() == nil && interrupted(err) && size > 1:
			size = max(1, min(size/retryChunk, retryChunk))
			continue
		case err != nil || enough:
			return err
		}
		passed = true
		s.looked += size
		took := time.Since(began)
		if err := s.yield(ctx, took); err != nil {
			return err
		}
		if !s.busy() {
			took /= idleFactor
		}
		if took < quickChunk {
			size = min(2*size, maxChunk)
		} else if took > slowChunk {
			size = max(size/2, 1)
		}
		switch {
		case bounded || s.lo >= s.hi:
		case s.looked >= s.limits.rows:
			s.reason = reasonRows
			return nil
		case time.Since(s.began) >= s.limits.time:
			s.reason = reasonTime
			return nil
		}
	}
	return nil
}

// yield lets other goroutines run after a chunk. While jobs change, it pauses for as long as the chunk took,
// so that a search leaves half of its core to acks.
func (s *search) yield(ctx context.Context, took time.Duration) error {
	if !s.busy() {
		runtime.Gosched()
		return nil
	}
	rest := time.NewTimer(took)
	defer rest.Stop()
	select {
	case <-rest.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// walk examines the candidates in the order of their numbers until the page is full. Then it continues for a
// short time to count the other jobs that fit.
func (s *search) walk(ctx context.Context) error {
	err := s.examine(ctx, false, func(ctx context.Context, c chunk) (bool, error) {
		before := len(s.found)
		query, args := s.statement(s.rest, c, s.need()-before)
		if err := s.find(ctx, query, args); err != nil {
			s.found = s.found[:before] // all of the chunk or nothing
			return false, err
		}
		return len(s.found) == s.need(), nil
	})
	if err != nil {
		return err
	}
	s.counted = int64(len(s.found))
	if len(s.found) < s.need() {
		s.whole = s.countKnown || s.reason == ""
		return nil
	}
	if s.whole = s.countKnown; s.whole {
		return nil
	}
	s.passed(chunk{s.found[s.Limit].number, s.found[s.Limit].number + 1})
	return s.count(ctx)
}

// count counts the remaining jobs that fit, as far as its limits allow.
func (s *search) count(ctx context.Context) error {
	lo, hi, limits := s.lo, s.hi, s.limits
	s.limits, s.began, s.looked = s.countLimits, time.Now(), 0
	err := s.examine(ctx, false, func(ctx context.Context, c chunk) (bool, error) {
		query, args := s.statement(s.rest, c, -1)
		var n int64
		err := s.tx.QueryRowContext(ctx, "SELECT count(*) FROM ("+query+")", args...).Scan(&n)
		if err == nil {
			s.counted += n
		}
		return false, err
	})
	s.whole = s.reason == "" && err == nil
	s.reason, s.lo, s.hi, s.limits = "", lo, hi, limits
	return err
}
