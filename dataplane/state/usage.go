package state

import (
	"fmt"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
)

// UsageRow is a usage record and its number. Rows are numbered from 1 without a
// gap for as long as the store's incarnation lasts.
type UsageRow struct {
	Seq    uint64
	Record *Usage
}

// AddUsage keeps one report of what j's current attempt used, under the next
// number: row says what was reported, what it cost and what it came with, and the rest is
// filled in from j. j is the
// job with the report already summed into it: its model and provider are the row's. A
// report that is kept aside has its own, and an event tells of it.
// The record is written at once; j is put as ever.
func (tx *Tx) AddUsage(j *job.Job, row *Usage) error {
	row.JobId, row.Attempt, row.Queue, row.ClockNs = j.Id, j.Attempt, j.Queue, tx.head.ClockNs
	row.Tags, row.FairnessKey = j.Tags, j.FairnessKey
	if row.Report.Rejected == "" {
		row.Report.Model, row.Report.Provider = j.GetUsage().GetModel(), j.GetUsage().GetProvider()
	}
	tx.key = appendUsageKey(tx.key[:0], tx.head.UsageNextSeq)
	if err := put(tx.batch, tx.key, row); err != nil {
		return tx.fail(fmt.Errorf("usage of job %x: %w", j.Id, err))
	}
	if row.Report.Rejected != "" {
		tx.head.UsageRejected++
		tx.Tell(EventType_EVENT_USAGE_REJECTED, j)
		tx.feed.Events[len(tx.feed.Events)-1].Usage = row.Report
	}
	tx.head.UsageNextSeq++
	tx.usageGrew = true
	return nil
}

// TrimUsage removes the rows numbered below firstSeq, which must be neither
// before the first row kept nor beyond the next one.
func (tx *Tx) TrimUsage(firstSeq uint64) error {
	head := tx.head
	if firstSeq < head.UsageFirstSeq || firstSeq > head.UsageNextSeq {
		return tx.fail(fmt.Errorf("trim the usage to %d: there are the rows from %d to before %d", firstSeq, head.UsageFirstSeq, head.UsageNextSeq))
	}
	if firstSeq == head.UsageFirstSeq {
		return nil
	}
	// One range tombstone, however many rows it covers: as numbers only grow, it
	// covers whole files, which are dropped without being read.
	if err := tx.batch.DeleteRange(appendUsageKey(nil, head.UsageFirstSeq), appendUsageKey(nil, firstSeq), nil); err != nil {
		return tx.fail(fmt.Errorf("trim the usage: %w", err))
	}
	head.UsageFirstSeq = firstSeq
	return nil
}

// Usage yields the rows numbered from `from` on, or from the first one kept where
// that is later.
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

// UsageClock is when the first row numbered from `from` on was reported; ok is false
// where there is none.
func (v *Snapshot) UsageClock(from uint64) (clockNs int64, ok bool, err error) {
	for row, err := range v.Usage(from) {
		if err != nil {
			return 0, false, err
		}
		return row.Record.ClockNs, true, nil
	}
	return 0, false, nil
}
