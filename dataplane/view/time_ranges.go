package view

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/corvo/corvo/dataplane/job"
)

// Times of jobs have no index, because an index on a column that changes with every transition makes every
// transition more expensive. But jobs that are created together run at about the same time. The table span
// therefore has, for each 4,096 numbers, the earliest and the latest value that each of their times ever had,
// so that a search can exclude ranges of numbers. A span may be too wide, never too narrow. It is thus no
// function of the records, and no dump contains it.

// spanShift is the number of jobs' numbers in a span, as a power of two.
const spanShift = 12

// spannedTimes are the times that spans record, in the order of the table's columns.
var spannedTimes = [...]struct {
	column string
	of     func(*job.Job) int64
}{
	{"created", func(j *job.Job) int64 { return j.CreatedNs }},
	{"scheduled", func(j *job.Job) int64 { return j.ScheduledNs }},
	{"started", func(j *job.Job) int64 { return j.StartedNs }},
	{"completed", func(j *job.Job) int64 { return j.CompletedNs }},
}

// span is the earliest and the latest value of each time, or 0 if there is none.
type span [len(spannedTimes)]struct{ first, last int64 }

// spans are the spans of the jobs that are being written, by number.
type spans map[uint64]*span

func (all spans) note(j *job.Job) {
	s := all[j.Number>>spanShift]
	if s == nil {
		s = new(span)
		all[j.Number>>spanShift] = s
	}
	for i, t := range spannedTimes {
		ns := t.of(j)
		if ns == 0 {
			continue
		}
		if s[i].first == 0 {
			s[i].first, s[i].last = ns, ns
		}
		s[i].first, s[i].last = min(s[i].first, ns), max(s[i].last, ns)
	}
}

// putSpanSQL widens a span. NULL never replaces a value.
var putSpanSQL = func() string {
	columns, sets := []string{"number"}, []string{}
	for _, t := range spannedTimes {
		first, last := t.column+"_first", t.column+"_last"
		columns = append(columns, first, last)
		sets = append(sets,
			fmt.Sprintf("%[1]s = min(coalesce(%[1]s, excluded.%[1]s), coalesce(excluded.%[1]s, %[1]s))", first),
			fmt.Sprintf("%[1]s = max(coalesce(%[1]s, excluded.%[1]s), coalesce(excluded.%[1]s, %[1]s))", last))
	}
	return fmt.Sprintf("INSERT INTO span (%s) VALUES (?%s) ON CONFLICT (number) DO UPDATE SET %s",
		strings.Join(columns, ", "), strings.Repeat(", ?", len(columns)-1), strings.Join(sets, ", "))
}()

// saveSpans writes the spans of the jobs written, and drops the spans before the first job.
func (w *writer) saveSpans() error {
	for number, s := range w.spans {
		args := []any{int64(number)}
		for _, t := range s {
			args = append(args, nullable(t.first), nullable(t.last))
		}
		if err := w.exec(w.putSpan, args...); err != nil {
			return fmt.Errorf("span %d: %w", number, err)
		}
	}
	clear(w.spans)
	return w.exec(w.trimSpans)
}

// spanned restricts the search to the numbers of those spans that can have jobs with the times of the query.
func (s *search) spanned(ctx context.Context) error {
	var conditions []string
	var args []any
	for _, by := range s.times() {
		if !by.after.IsZero() {
			conditions, args = append(conditions, by.column+"_last > ?"), append(args, unixNs(by.after))
		}
		if !by.before.IsZero() {
			conditions, args = append(conditions, by.column+"_first < ?"), append(args, unixNs(by.before))
		}
	}
	if len(conditions) == 0 {
		return nil
	}
	var first, last sql.NullInt64
	err := s.tx.QueryRowContext(ctx, "SELECT min(number), max(number) FROM span WHERE "+strings.Join(conditions, " AND "), args...).Scan(&first, &last)
	if !first.Valid {
		s.lo, s.hi = 0, 0
		return err
	}
	s.lo = max(s.lo, first.Int64<<spanShift)
	s.hi = min(s.hi, (last.Int64+1)<<spanShift)
	return err
}
