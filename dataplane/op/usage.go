package op

import (
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// rated is a worker's report with what it costs, ready to be written.
type rated struct {
	sum *job.Usage   // of the job, the report included unless it is kept aside
	row *state.Usage // nil where nothing was reported
}

// rejected says why the report is kept aside; empty where it counts.
func (r rated) rejected() string { return r.row.GetReport().GetRejected() }

// rate says what a report costs and sums it into the job's usage, without writing
// anything. The cost that counts is the one the worker says. Where the worker says none, the
// price book computes it, and a model that has no price costs what the dearest one would.
// A report that is beyond a limit is kept aside: it is rejected, and the op is done.
func rate(tx *state.Tx, j *job.Job, reported *job.Usage) rated {
	if reported == nil {
		return rated{sum: j.Usage}
	}
	counts := copied(reported)
	// An op from before there were prices says so by a cost that is not nothing.
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

// copied is a report of its own: what is written of it is not written to the op.
func copied(u *job.Usage) *job.Usage {
	return &job.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CacheCreationTokens: u.CacheCreationTokens, CacheReadTokens: u.CacheReadTokens,
		Model: u.Model, Provider: u.Provider, CostNanoUsd: u.CostNanoUsd, CostReported: u.CostReported, Rejected: u.Rejected,
	}
}

// total is the job's usage with the row's report, whose cost it completes; or why the
// report has to be kept aside.
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
		sum.CostNanoUsd += row.ComputedNanoUsd // both are far below what an int64 holds
	}
	if !sum.WithinJob() {
		return nil, job.RejectedJob
	}
	return sum, ""
}

// compute notes in a row what the price book says its report costs. It is false where
// that counts and is more than a report may cost.
func compute(book *state.ResourceIndex, of *job.Usage, row *state.Usage) bool {
	u := row.Report
	t := billing.Tokens{Input: u.InputTokens, Output: u.OutputTokens, CacheCreation: u.CacheCreationTokens, CacheRead: u.CacheReadTokens}
	if t.None() || !book.HasPrices() {
		return true
	}
	price, known := book.PriceOf(of.Provider, of.Model, t)
	row.Unpriced = !known
	if !known {
		if u.CostReported {
			return true // a ceiling would say nothing of it
		}
		price = book.CeilingPrice()
	}
	cost, err := price.Rate(t)
	if err != nil {
		return u.CostReported
	}
	row.ComputedNanoUsd, row.Computed = int64(cost), true
	return u.CostReported || int64(cost) <= job.MaxReportCost
}

// report keeps what a worker reported of j, if it did, as rate has rated it: the sum as
// the job's usage, and the report itself as a usage row. Whoever accepts a report
// passes it through here and nowhere else, so that each reported quantity is in the
// job's sum once and in one row.
//
// A report that is kept aside is in its row alone. Budgets count the attempt's reservation
// as spent then: the attempt has cost something, nobody knows how much, and a worker
// whose reports are all rejected would else spend without a limit.
func report(tx *state.Tx, j *job.Job, r rated, came state.UsagePhase) error {
	j.Usage = r.sum
	if r.row == nil {
		return nil
	}
	r.row.Phase = came
	if r.rejected() != "" {
		if c := j.Lease.GetClaims(); len(c.GetBudgetIds()) > 0 {
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

// doneWith is the answer for an item that was done, and of whose usage report so much is
// to be said.
func doneWith(rejected string) *Refusal {
	if rejected == "" {
		return nil
	}
	return &Refusal{UsageRejected: rejected}
}
