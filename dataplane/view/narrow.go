package view

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/dataplane/job"
)

// narrowing is the part of a filter that speaks of what few jobs have.
type narrowing struct {
	index  string // of extra: the one to look in; "" where there is no such part
	sorts  bool   // the index yields jobs in another order than that of their numbers
	column string // of the index
	where  string // conditions on extra x
	args   []any
}

// narrowing says which rows of extra a query wants. One column has the index, as a
// rule the one by which the fewest jobs are found. The pluses keep the indexes of the
// others out.
func (q *Query) narrowing() (n narrowing) {
	var conditions []string
	add := func(index, column, condition string, value any) {
		if n.index == "" {
			n.index, n.column = index, column
		}
		if column = "x." + column; n.index != index {
			column = "+" + column
		}
		conditions, n.args = append(conditions, column+condition), append(n.args, value)
	}
	if q.UniqueKey != "" {
		add("extra_by_unique_key", "unique_key", " = ?", q.UniqueKey)
	}
	for _, by := range [...]struct {
		index, column, prefix string
		id                    job.ID
	}{
		{"extra_by_parent", "parent_id", job.IDPrefix, q.ParentID},
		{"extra_by_chain", "chain_id", chainPrefix, q.ChainID},
		{"extra_by_batch", "batch_id", batchPrefix, q.BatchID},
	} {
		if by.id != (job.ID{}) {
			add(by.index, by.column, " = ?", idWord(by.prefix, by.id))
		}
	}
	n.sorts = n.index == ""
	if !q.ExpireAfter.IsZero() {
		add("extra_by_expiry", "expire_ns", " > ?", unixNs(q.ExpireAfter))
	}
	if !q.ExpireBefore.IsZero() {
		add("extra_by_expiry", "expire_ns", " < ?", unixNs(q.ExpireBefore))
	}
	n.where = strings.Join(conditions, " AND ")
	return n
}

// widened is the query without what narrows it.
func (q Query) widened() Query {
	q.UniqueKey, q.BatchID, q.ParentID, q.ChainID = "", job.ID{}, job.ID{}, job.ID{}
	q.ExpireAfter, q.ExpireBefore = time.Time{}, time.Time{}
	return q
}

// planNarrow finds jobs by what few have: a range of an index on extra, counted as
// the range of an id prefix is. A range of very many jobs, such as a large batch, is
// walked, but for where the rest of the filter leaves few: those are looked at one
// by one, so that the dead jobs of a large batch are found at once.
func (s *search) planNarrow(ctx context.Context) ([]branch, error) {
	n := s.narrowing()
	rest, err := s.restOfFilter()
	if err != nil {
		return nil, err
	}
	var inRange int64
	err = s.tx.QueryRowContext(ctx, fmt.Sprintf(`SELECT count(*), count(CASE WHEN %s THEN 1 END) FROM
		(SELECT x.number FROM extra x INDEXED BY %s WHERE x.%s IS NOT NULL AND %s LIMIT %d) x%s`,
		rest.where, n.index, n.column, n.where, maxPrefixCount+1, rest.joins), slices.Concat(rest.args, n.args)...).Scan(&inRange, &s.total)
	if err != nil {
		return nil, err
	}
	use := " INDEXED BY " + n.index
	if s.estimate = inRange > maxPrefixCount; s.estimate {
		few, err := s.planFew(ctx, n)
		if few != nil || err != nil {
			return few, err
		}
		if n.sorts {
			use = " NOT INDEXED"
		}
	}
	from := fmt.Sprintf("extra x%s%s WHERE x.%s IS NOT NULL AND %s AND %s", use, rest.joins, n.column, n.where, rest.where)
	return []branch{{from: from, args: slices.Concat(n.args, rest.args), table: "x"}}, nil
}

// planFew finds the jobs of the rest of the filter, where the counters say that they
// are few, and keeps those that have what is asked for. It is nil where they are
// many.
func (s *search) planFew(ctx context.Context, n narrowing) ([]branch, error) {
	wide := search{Query: s.widened(), tx: s.tx, beyond: s.beyond}
	branches, err := wide.plan(ctx)
	if err != nil || wide.estimate || wide.total > maxPrefixCount {
		return nil, err
	}
	for i := range branches {
		b := &branches[i]
		b.from += fmt.Sprintf(" AND EXISTS (SELECT 1 FROM extra x WHERE x.number = %s.number AND %s)", b.table, n.where)
		b.args = slices.Concat(b.args, n.args)
	}
	return branches, nil
}

// rest is the part of a filter that does not narrow it, and the tables it speaks of.
type rest struct {
	joins string // hot h, document d; what is not asked about is not joined
	where string
	args  []any
}

func (s *search) restOfFilter() (r rest, err error) {
	conditions := []string{"1"}
	if s.IDPrefix != "" {
		r.joins = " CROSS JOIN document d ON d.number = x.number"
		// No character of an id sorts after "~".
		conditions, r.args = append(conditions, "+d.id >= ? AND +d.id < ?"), append(r.args, s.IDPrefix, s.IDPrefix+"~")
	}
	if s.Queue != "" || s.Queues != nil || len(s.States) > 0 {
		r.joins += " CROSS JOIN hot h ON h.number = x.number"
	}
	if s.Queue != "" {
		conditions, r.args = append(conditions, "+h.queue = ?"), append(r.args, s.Queue)
	}
	in := func(column, names string) {
		conditions, r.args = append(conditions, column+" IN "+fromList), append(r.args, names)
	}
	if s.Queues != nil {
		names, err := list(s.Queues)
		if err != nil {
			return rest{}, err
		}
		in("+h.queue", names)
	}
	if len(s.States) > 0 {
		states, err := list(words(s.States))
		if err != nil {
			return rest{}, err
		}
		in("+h.state", states)
	}
	r.where = strings.Join(conditions, " AND ")
	return r, nil
}

// unixNs is an instant as records have it, or the nearest they can have.
func unixNs(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64)):
		return math.MinInt64
	case t.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	}
	return t.UnixNano()
}
