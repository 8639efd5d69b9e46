package sinks

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/billing"
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
	return f, more, err
}

// sumRows implements frameOf with the numbers of the store.
func sumRows(snap *state.Snapshot, of usagePart, from uint64) (f billing.Frame, more bool, err error) {
	f = billing.Frame{Source: of.source, From: from, To: from - 1}
	sums := map[billing.Dimensions]billing.Quantities{}
	var order []billing.Dimensions
	defer func() {
		for _, d := range order {
			f.Rows = d.AppendRows(f.Rows, sums[d])
		}
	}()
	rows := 0
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
		d, q := dimensionsOf(row.Record), quantitiesOf(row.Record)
		sum, known := sums[d]
		was := sum.Meters()
		if err := sum.Add(q); errors.Is(err, billing.ErrOverflow) {
			return f, true, nil // the first record always fits, so the frame is not empty
		} else if err != nil {
			return f, false, fmt.Errorf("sum usage row %d: %w", row.Seq, err)
		}
		if rows += sum.Meters() - was; rows > billing.MaxFrameRows {
			return f, true, nil
		}
		if !known {
			order = append(order, d)
		}
		sums[d] = sum
		f.To = row.Seq
	}
	return f, false, nil
}

func dimensionsOf(u *state.Usage) billing.Dimensions {
	return billing.Dimensions{HourNs: hourOf(u.ClockNs), Queue: u.Queue, Model: u.Report.GetModel(), Provider: u.Report.GetProvider()}
}

// hourOf returns the start of the hour of a time.
func hourOf(ns int64) int64 {
	into := ns % int64(time.Hour)
	if into < 0 {
		into += int64(time.Hour)
	}
	return ns - into
}

func quantitiesOf(u *state.Usage) billing.Quantities {
	r := u.Report
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
