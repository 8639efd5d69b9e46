package op

import (
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// rated is a worker's report with its cost, ready to be written.
type rated struct {
	sum *job.Usage   // the job's usage, which includes the report unless it was rejected
	row *state.Usage // nil if nothing was reported
}

// rejected returns the reason why the report does not count, or an empty text.
func (r rated) rejected() string { return r.row.GetReport().GetRejected() }

// rate computes the cost of a report and adds the report to the job's usage, without writing anything. A cost
// that the worker reports counts as it is. For a report without a cost, the price book gives the cost; a
// model without a price is charged at the ceiling price. Without any price in the namespace the cost is 0. A
// report that is negative or beyond a limit is rejected: it does not count, but the item is done.
func rate(tx *state.Tx, j *job.Job, reported *job.Usage) rated {
	if reported == nil {
		return rated{sum: j.Usage}
	}
	counts := copied(reported)
	// An op written before prices existed marks a reported cost only by a value other than 0.
	counts.CostReported = counts.CostReported || counts.CostNanoUsd != 0
	row := &state.Usage{Report: counts, First: j.Usage == nil}
	sum, why := total(tx, j, row)
	if why == "" {
		return rated{sum: sum, row: row}
	}
	aside := copied(reported)
	aside.Rejected = why
	return rated{sum: j.Usage, row: &state.Usage{Report: aside}}
}

// copied returns a copy of a report, so that changes to it do not change the op.
func copied(u *job.Usage) *job.Usage {
	return &job.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CacheCreationTokens: u.CacheCreationTokens, CacheReadTokens: u.CacheReadTokens,
		Model: u.Model, Provider: u.Provider, CostNanoUsd: u.CostNanoUsd, CostReported: u.CostReported, Rejected: u.Rejected,
	}
}

// total returns the job's usage with the row's report and completes the report's cost, or returns the reason to
// reject the report.
func total(tx *state.Tx, j *job.Job, row *state.Usage) (sum *job.Usage, why string) {
	counts := row.Report
	if why := counts.Fault(); why != "" {
		return nil, why
	}
	sum, err := j.Usage.Add(counts)
	if err != nil {
		return nil, job.RejectedJob
	}
	if sum.Model == "" {
		sum.Model = j.Options.GetModel()
	}
	if !compute(tx.ResourceIndex(), sum, row) {
		return nil, job.RejectedCost
	}
	if !counts.CostReported {
		counts.CostNanoUsd = row.ComputedNanoUsd
		sum.CostNanoUsd += row.ComputedNanoUsd // both are far below the maximum int64
	}
	if !sum.WithinJob() {
		return nil, job.RejectedJob
	}
	return sum, ""
}

// compute stores in a row the cost that the price book gives for its report. It returns false if that cost
// counts, but cannot be computed or exceeds job.MaxReportCost.
func compute(prices *state.ResourceIndex, of *job.Usage, row *state.Usage) bool {
	u := row.Report
	t := billing.Tokens{Input: u.InputTokens, Output: u.OutputTokens, CacheCreation: u.CacheCreationTokens, CacheRead: u.CacheReadTokens}
	if t.None() || !prices.HasPrices() {
		return true
	}
	price, known := prices.PriceOf(of.Provider, of.Model, t)
	row.Unpriced = !known
	if !known {
		if u.CostReported {
			return true // the reported cost counts, and a ceiling price would be no check of it
		}
		price = prices.CeilingPrice()
	}
	cost, err := price.Rate(t)
	if err != nil {
		return u.CostReported
	}
	row.ComputedNanoUsd, row.Computed = int64(cost), true
	return u.CostReported || int64(cost) <= job.MaxReportCost
}

// report stores a rated report of j, if there is one: the sum as the job's usage, and the report itself as a
// usage row. The caller puts j. Every op that accepts a report calls report, so that each reported quantity
// is in the job's sum once and in one row.
//
// A rejected report is in its row only. Budgets then count the attempt's reservation as spent, because the
// attempt has an unknown cost, and a worker whose reports are all rejected would otherwise spend without a limit.
func report(tx *state.Tx, j *job.Job, r rated, came state.UsagePhase) error {
	j.Usage = r.sum
	if r.row == nil {
		return nil
	}
	r.row.Phase = came
	if r.rejected() != "" {
		if c := j.Lease.GetReservation(); len(c.GetBudgetIds()) > 0 {
			c.SpentNanoUsd = max(c.SpentNanoUsd, c.ReservedNanoUsd)
		}
		return tx.AddUsage(j, r.row)
	}
	if err := countTokens(tx, j, r.row.Report); err != nil {
		return err
	}
	if err := spend(tx, j, r.row.Report.CostNanoUsd); err != nil {
		return err
	}
	return tx.AddUsage(j, r.row)
}

// doneWith returns the answer for an item that was done: nil, or the reason why its usage report was rejected.
func doneWith(rejected string) *Refusal {
	if rejected == "" {
		return nil
	}
	return &Refusal{UsageRejected: rejected}
}
