package sinks

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// maxFrameRecords bounds the usage rows that are read from the store for one frame.
const maxFrameRecords = 20_000

// frameOf sums the usage rows starting at from into the next frame of a part, with the numbers of the part's source. It
// stops at the end of the part, and before a row that would exceed the size of a frame or the range of a sum; more then
// reports that rows are left. A frame without rows means that there are none.
func frameOf(store *state.Store, of usagePart, from uint64) (f billing.Frame, more bool, err error) {
	snap := store.Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	f, more, err = sumRows(snap, of, from)
	f.From -= of.base
	f.To -= of.base
	f.Hash = billing.HashRows(f.Rows)
	return f, more, err
}

// sumRows implements frameOf with the numbers of the store.
func sumRows(snap *state.Snapshot, of usagePart, from uint64) (f billing.Frame, more bool, err error) {
	f = billing.Frame{Source: of.source, From: from, To: from - 1}
	sums := sums{of: map[billing.Dimensions]billing.Quantities{}}
	defer func() {
		for _, d := range sums.order {
			f.Rows = d.AppendRows(f.Rows, sums.of[d])
		}
	}()
	for row, err := range snap.Usage(from) {
		if err != nil {
			return f, false, fmt.Errorf("read usage from row %d: %w", from, err)
		}
		if row.Seq != f.To+1 {
			return f, false, fmt.Errorf("usage row %d is missing, the next is %d", f.To+1, row.Seq)
		}
		if row.Seq == of.end || f.To+1-from == maxFrameRecords {
			return f, true, nil
		}
		if fits, err := sums.add(row.Record); err != nil {
			return f, false, fmt.Errorf("sum usage row %d: %w", row.Seq, err)
		} else if !fits {
			return f, true, nil // the first record always fits, so the frame is not empty
		}
		f.To = row.Seq
	}
	return f, false, nil
}

// sums are the sums of a frame.
type sums struct {
	of    map[billing.Dimensions]billing.Quantities
	order []billing.Dimensions // of their first records
	rows  int                  // of the frame
	next  []part               // of the record that is being added
}

// part is the usage of one record under one key of the sums.
type part struct {
	billing.Dimensions
	billing.Quantities
}

// add adds a usage record. fits is false, and the sums stay unchanged, if they would exceed the size of a frame or the
// range of a sum.
func (s *sums) add(u *state.Usage) (fits bool, err error) {
	s.next = appendParts(s.next[:0], u)
	rows := s.rows
	for i := range s.next {
		p := &s.next[i]
		sum := s.of[p.Dimensions]
		was := sum.Meters()
		if err := sum.Add(p.Quantities); errors.Is(err, billing.ErrOverflow) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if rows += sum.Meters() - was; rows > billing.MaxFrameRows {
			return false, nil
		}
		p.Quantities = sum
	}
	for _, p := range s.next {
		if _, known := s.of[p.Dimensions]; !known {
			s.order = append(s.order, p.Dimensions)
		}
		s.of[p.Dimensions] = p.Quantities
	}
	s.rows = rows
	return true, nil
}

// appendParts appends the usage of a record. No two parts have the same key.
func appendParts(to []part, u *state.Usage) []part {
	hourNs := hourOf(u.ClockNs)
	if u.Meters == nil {
		return append(to, part{
			billing.Dimensions{HourNs: hourNs, Queue: u.Queue, Model: u.Report.GetModel(), Provider: u.Report.GetProvider()},
			quantitiesOf(u.Report),
		})
	}
	for _, q := range u.Meters.Queues {
		to = append(to, part{billing.Dimensions{HourNs: hourNs, Queue: q.Queue}, billing.Quantities{
			billing.JobsEnqueued:  int64(q.JobsEnqueued),
			billing.JobsCompleted: int64(q.JobsCompleted),
			billing.ActiveSeconds: int64(q.ActiveSeconds),
		}})
	}
	if u.Meters.OpenSeconds > 0 {
		to = append(to, part{billing.Dimensions{HourNs: hourNs}, billing.Quantities{
			billing.OpenSeconds:       int64(u.Meters.OpenSeconds),
			billing.StoredByteSeconds: int64(u.Meters.StoredByteSeconds),
		}})
	}
	return to
}

// hourOf returns the start of the hour of a time.
func hourOf(ns int64) int64 {
	into := ns % int64(time.Hour)
	if into < 0 {
		into += int64(time.Hour)
	}
	return ns - into
}

func quantitiesOf(r *job.Usage) billing.Quantities {
	if r.GetRejected() != "" {
		return billing.Quantities{billing.RejectedReports: 1} // its amounts are in no sum
	}
	return billing.Quantities{
		billing.Reports:             1,
		billing.InputTokens:         r.GetInputTokens(),
		billing.OutputTokens:        r.GetOutputTokens(),
		billing.CacheCreationTokens: r.GetCacheCreationTokens(),
		billing.CacheReadTokens:     r.GetCacheReadTokens(),
		billing.Cost:                r.GetCostNanoUsd(),
	}
}
