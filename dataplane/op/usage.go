package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// rated is a worker's report with what it costs, ready to be written.
type rated struct {
	sum *job.Usage   // of the job, the report included
	row *state.Usage // nil where nothing was reported
}

// rate says what a report costs and sums it into the job's usage, without writing
// anything. What counts is the cost that the worker says; where it says none it is
// computed by the price book, and a model that has no price costs what the dearest one
// would. A report that does not fit the job's sum is refused.
func rate(tx *state.Tx, j *job.Job, reported *job.Usage) (rated, *Refusal) {
	if reported == nil {
		return rated{sum: j.Usage}, nil
	}
	counts := &job.Usage{
		InputTokens:         reported.InputTokens,
		OutputTokens:        reported.OutputTokens,
		CacheCreationTokens: reported.CacheCreationTokens,
		CacheReadTokens:     reported.CacheReadTokens,
		Model:               reported.Model,
		Provider:            reported.Provider,
		CostNanoUsd:         reported.CostNanoUsd,
		// An op from before there were prices says so by a cost that is not nothing.
		CostReported: reported.CostReported || reported.CostNanoUsd != 0,
	}
	sum, err := j.Usage.Add(counts)
	if err == nil {
		if sum.Model == "" {
			sum.Model = j.Options.GetModel()
		}
		row := &state.Usage{Report: counts, First: j.Usage == nil}
		err = compute(tx.Book(), sum, row)
		if err == nil && !counts.CostReported {
			counts.CostNanoUsd = row.ComputedNanoUsd
			err = sum.AddCost(row.ComputedNanoUsd)
		}
		if err == nil {
			return rated{sum: sum, row: row}, nil
		}
	}
	return rated{}, refuse(api.ValidationError, "job %s: %v", job.ID(j.Id), err)
}

// compute notes in a row what the price book says its report costs. It fails where the
// cost would count and does not fit.
func compute(book *state.Book, of *job.Usage, row *state.Usage) error {
	u := row.Report
	t := billing.Tokens{Input: u.InputTokens, Output: u.OutputTokens, CacheCreation: u.CacheCreationTokens, CacheRead: u.CacheReadTokens}
	if t.None() || !book.HasPrices() {
		return nil
	}
	price, known := book.PriceOf(of.Provider, of.Model, t)
	row.Unpriced = !known
	if !known {
		if u.CostReported {
			return nil // a ceiling would say nothing of it
		}
		price = book.CeilingPrice()
	}
	cost, err := price.Rate(t)
	switch {
	case err == nil:
		row.ComputedNanoUsd, row.Computed = int64(cost), true
	case !u.CostReported:
		return job.ErrUsageOverflow
	}
	return nil
}

// report keeps what a worker reported of j, if it did, as rate has rated it: the sum as
// the job's usage, and the report itself as a usage row. Whoever accepts a report
// passes it through here and nowhere else, so that each reported quantity is in the
// job's sum once and in one row.
func report(tx *state.Tx, j *job.Job, r rated, came state.UsagePhase) error {
	j.Usage = r.sum
	if r.row == nil {
		return nil
	}
	if err := countTokens(tx, j, r.row.Report); err != nil {
		return err
	}
	if err := spend(tx, j, r.row.Report.CostNanoUsd); err != nil {
		return err
	}
	r.row.Phase = came
	return tx.AddUsage(j, r.row)
}
