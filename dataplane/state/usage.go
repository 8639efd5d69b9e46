package state

import (
	"fmt"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
)

// UsageRow is a usage record and its number. Rows are numbered from 1 without a gap. A restored backup gives
// the numbers after its last row again, in its new incarnation.
type UsageRow struct {
	Seq    uint64
	Record *Usage
}

// AddUsage stores one usage report of j's current attempt under the next number. row contains the report, its
// cost and its origin; AddUsage takes the other fields from j and the entry's clock. j must already include
// the report in its sum, because the row takes j's model and provider. A rejected report keeps its own model
// and provider, and AddUsage adds an event for it. The record is written to the batch at once; the caller
// puts j as usual.
func (tx *Tx) AddUsage(j *job.Job, row *Usage) error {
	row.JobId, row.Attempt, row.Queue, row.ClockNs = j.Id, j.Attempt, j.Queue, tx.head.ClockNs
	row.Tags, row.FairnessKey = j.Tags, j.FairnessKey
	if row.Report.Rejected == "" {
		row.Report.Model, row.Report.Provider = j.GetUsage().GetModel(), j.GetUsage().GetProvider()
	}
	if err := tx.addUsageRow(row); err != nil {
		return fmt.Errorf("usage of job %x: %w", j.Id, err)
	}
	if row.Report.Rejected != "" {
		tx.head.UsageRejected++
		tx.AddEvent(EventType_EVENT_USAGE_REJECTED, j)
		tx.feed.Events[len(tx.feed.Events)-1].Usage = row.Report
	}
	return nil
}

// addUsageRow writes a usage row under the next number.
func (tx *Tx) addUsageRow(row *Usage) error {
	tx.key = appendUsageKey(tx.key[:0], tx.head.UsageNextSeq)
	if err := put(tx.batch, tx.key, row); err != nil {
		return tx.fail(fmt.Errorf("usage row %d: %w", tx.head.UsageNextSeq, err))
	}
	tx.head.UsageNextSeq++
	tx.usageGrew = true
	return nil
}

// TrimUsage removes the rows numbered below firstSeq. firstSeq must be at least the number of the first
// stored row and at most the number of the next row.
func (tx *Tx) TrimUsage(firstSeq uint64) error {
	head := tx.head
	if firstSeq < head.UsageFirstSeq || firstSeq > head.UsageNextSeq {
		return tx.fail(fmt.Errorf("trim the usage to %d: there are the rows from %d to before %d", firstSeq, head.UsageFirstSeq, head.UsageNextSeq))
	}
	if firstSeq == head.UsageFirstSeq {
		return nil
	}
	// One range tombstone covers all the rows. Numbers only grow, so it covers whole files, which Pebble
	// drops without reading them.
	if err := tx.batch.DeleteRange(appendUsageKey(nil, head.UsageFirstSeq), appendUsageKey(nil, firstSeq), nil); err != nil {
		return tx.fail(fmt.Errorf("trim the usage: %w", err))
	}
	head.UsageFirstSeq = firstSeq
	return nil
}

// Usage yields the rows from `from` on in order, or from the first stored one if that is later.
func (v *Snapshot) Usage(from uint64) iter.Seq2[UsageRow, error] {
	return func(yield func(UsageRow, error) bool) {
		for kv, err := range scanPairs(v.snap, appendUsageKey(nil, from), afterPrefix(prefixUsage)) {
			row := UsageRow{Record: &Usage{}}
			if err == nil {
				row.Seq, err = decodeUsageKey(kv.Key)
			}
			if err == nil {
				err = decode(kv, row.Record)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// UsageClock returns the time of the first row from `from` on; ok is false if there is none.
func (v *Snapshot) UsageClock(from uint64) (clockNs int64, ok bool, err error) {
	for row, err := range v.Usage(from) {
		if err != nil {
			return 0, false, err
		}
		return row.Record.ClockNs, true, nil
	}
	return 0, false, nil
}
