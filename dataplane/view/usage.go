package view

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Usage rows are immutable and numbered without a gap, so the last row in the file shows how far the file is:
// followUsage adds later rows and drops those that the store no longer has. Usage therefore needs no events,
// and outlives the jobs to which it belongs. The file leaves out the rows of RecordUsage, because they are of no job and
// only the ledger of the cloud uses them.

const putUsageSQL = `
INSERT OR REPLACE INTO usage (seq, job_id, queue, attempt, phase, first, input_tokens, output_tokens, cache_creation_tokens,
	cache_read_tokens, model, provider, cost_nano_usd, reported_nano_usd, computed_nano_usd, unpriced, tags, fairness_key, clock_ns, rejected)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// loadUsage writes all usage rows, in transactions of bounded length.
func loadUsage(ctx context.Context, w *writer, snap *state.Snapshot) error {
	next := snap.Head().GetUsageFirstSeq()
	for more := true; more; {
		if err := w.transact(func() (err error) {
			more = false
			for row, err := range snap.Usage(next) {
				if err == nil && row.Record.Meters == nil {
					err = w.usage(row)
				}
				if err != nil {
					return err
				}
				if next = row.Seq + 1; next%chunkJobs == 0 {
					more = true
					break
				}
			}
			return ctx.Err()
		}); err != nil {
			return err
		}
	}
	return nil
}

// followUsage adds the rows that are not in the file yet and that were reported no later than toNs, and drops
// those that the store no longer has. The caller must call it inside the transaction that writes the other
// changes up to that time.
func (w *writer) followUsage(snap *state.Snapshot, toNs int64) error {
	if w.usageNext == 0 {
		var last [1]driver.Value
		if _, err := w.first(w.newestUsage, last[:]); err != nil {
			return err
		}
		seq, _ := last[0].(int64)
		w.usageNext = uint64(seq) + 1
	}
	for row, err := range snap.Usage(w.usageNext) {
		if err == nil && row.Record.ClockNs > toNs {
			break
		}
		if err == nil && row.Record.Meters == nil {
			err = w.usage(row)
		}
		if err != nil {
			return err
		}
		w.usageNext = row.Seq + 1
	}
	return w.forgetUsage(snap.Head())
}

// forgetUsage drops the rows that the store no longer has.
func (w *writer) forgetUsage(head *state.Head) error {
	first := head.GetUsageFirstSeq()
	if first == w.usageFirst {
		return nil
	}
	if err := w.exec(w.trimUsage, int64(first)); err != nil {
		return fmt.Errorf("drop the usage before row %d: %w", first, err)
	}
	w.usageFirst = first
	return nil
}

// usage writes a usage row.
func (w *writer) usage(row state.UsageRow) error {
	u, r := row.Record, row.Record.GetReport()
	id, err := job.IDFromBytes(u.JobId)
	if err != nil {
		return fmt.Errorf("usage row %d: %w", row.Seq, err)
	}
	tags, err := pairsText(u.Tags)
	if err != nil {
		return err
	}
	if row.Seq > math.MaxInt64 {
		return errors.New("usage rows are numbered beyond what SQLite can number")
	}
	var reported, computed any
	if r.GetCostReported() {
		reported = r.GetCostNanoUsd()
	}
	if u.Computed {
		computed = u.ComputedNanoUsd
	}
	return w.exec(w.putUsage, int64(row.Seq), id.String(), u.Queue, int64(u.Attempt), phaseWord(u.Phase), u.First, r.GetInputTokens(),
		r.GetOutputTokens(), r.GetCacheCreationTokens(), r.GetCacheReadTokens(), text(r.GetModel()), text(r.GetProvider()),
		r.GetCostNanoUsd(), reported, computed, u.Unpriced, tags, text(u.FairnessKey), u.ClockNs, text(r.GetRejected()))
}

// phaseWord returns the kind of request that carried a usage report. Rows from before the phase was recorded do
// not tell; they get "report".
func phaseWord(p state.UsagePhase) string {
	switch p {
	case state.UsagePhase_USAGE_PHASE_ACK:
		return "ack"
	case state.UsagePhase_USAGE_PHASE_FAIL:
		return "fail"
	case state.UsagePhase_USAGE_PHASE_HEARTBEAT:
		return "heartbeat"
	}
	return "report"
}
