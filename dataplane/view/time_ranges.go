package view

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
)

// Times of jobs have no index, because an index on a column that changes with every transition makes every
// transition more expensive. But jobs that are created together run at about the same time. The table
// time_range therefore has, for each 4,096 numbers, the earliest and the latest value that each time of their
// jobs ever had, so that a search can exclude ranges of numbers. A range may be too wide, never too narrow.
// It is thus no function of the records, and no dump contains it.

// timeRangeShift is the number of jobs' numbers in a range, as a power of two.
const timeRangeShift = 12

// rangeTimes are the times that ranges record, in the order of the table's columns.
var rangeTimes = [...]struct {
	column string
	of     func(*job.Job) int64
}{
	{"created", func(j *job.Job) int64 { return j.CreatedNs }},
	{"scheduled", func(j *job.Job) int64 { return j.ScheduledNs }},
	{"started", func(j *job.Job) int64 { return j.StartedNs }},
	{"completed", func(j *job.Job) int64 { return j.CompletedNs }},
}

// timeRange is the earliest and the latest value of each time, or 0 if there is none.
type timeRange [len(rangeTimes)]struct{ first, last int64 }

// timeRanges are the ranges of the jobs that are being written, by number.
type timeRanges map[uint64]*timeRange

func (all timeRanges) note(j *job.Job) {
	s := all[j.Number>>timeRangeShift]
	if s == nil {
		s = new(timeRange)
		all[j.Number>>timeRangeShift] = s
	}
	for i, t := range rangeTimes {
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

// putTimeRangeSQL widens a range. NULL never replaces a value.
var putTimeRangeSQL = func() string {
	columns, sets := []string{"number"}, []string{}
	for _, t := range rangeTimes {
		first, last := t.column+"_first", t.column+"_last"
		columns = append(columns, first, last)
		sets = append(sets,
			fmt.Sprintf("%[1]s = min(coalesce(%[1]s, excluded.%[1]s), coalesce(excluded.%[1]s, %[1]s))", first),
			fmt.Sprintf("%[1]s = max(coalesce(%[1]s, excluded.%[1]s), coalesce(excluded.%[1]s, %[1]s))", last))
	}
	return fmt.Sprintf("INSERT INTO time_range (%s) VALUES (?%s) ON CONFLICT (number) DO UPDATE SET %s",
		strings.Join(columns, ", "), strings.Repeat(", ?", len(columns)-1), strings.Join(sets, ", "))
}()

// saveTimeRanges writes the ranges of the jobs written, and drops the ranges before the first job.
func (w *writer) saveTimeRanges() error {
	for number, s := range w.timeRanges {
		args := []any{int64(number)}
		for _, t := range s {
			args = append(args, nullable(t.first), nullable(t.last))
		}
		if err := w.exec(w.putTimeRange, args...); err != nil {
			return fmt.Errorf("time range %d: %w", number, err)
		}
	}
	clear(w.timeRanges)
	return w.exec(w.trimTimeRanges)
}

// restrictToTimes restricts the search to the numbers from the first to the last range that can have jobs
// with the query's times.
func (s *search) restrictToTimes(ctx context.Context) error {
	var conditions []string
	var args []any
	for _, by := range s.times() {
		if !by.after.IsZero() {
			conditions, args = append(conditions, by.column+"_last > ?"), append(args, api.UnixNs(by.after))
		}
		if !by.before.IsZero() {
			conditions, args = append(conditions, by.column+"_first < ?"), append(args, api.UnixNs(by.before))
		}
	}
	if len(conditions) == 0 {
		return nil
	}
	var first, last sql.NullInt64
	err := s.tx.QueryRowContext(ctx, "SELECT min(number), max(number) FROM time_range WHERE "+strings.Join(conditions, " AND "), args...).Scan(&first, &last)
	if !first.Valid {
		s.lo, s.hi = 0, 0
		return err
	}
	s.lo = max(s.lo, first.Int64<<timeRangeShift)
	s.hi = min(s.hi, (last.Int64+1)<<timeRangeShift)
	return err
}
