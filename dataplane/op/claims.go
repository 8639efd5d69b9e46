package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// An attempt holds more than its job: money that budgets reserve for it, tokens that
// its provider lets through, the share of its fairness key. All of it is claimed when
// the job is leased and given back when the attempt ends, however it ends: the store
// refuses a job that stops being active with claims.

// claim has an attempt that begins take what it needs. j is leased, and not put yet.
func claim(tx *state.Tx, j *job.Job) error {
	if err := tx.BeginService(j); err != nil {
		return err
	}
	if err := claimProvider(tx, j); err != nil {
		return err
	}
	return reserveBudgets(tx, j)
}

// claims are those of a running attempt, to be changed.
func claims(j *job.Job) *job.Claims {
	if j.Lease.Claims == nil {
		j.Lease.Claims = &job.Claims{}
	}
	return j.Lease.Claims
}

// giveUp has an attempt that ends, of an active job, give back what it has claimed.
// What it has spent has been reported before.
func giveUp(tx *state.Tx, j *job.Job) error { return release(tx, j, false) }

// release is giveUp; acked says that the attempt ends with success, and so has
// reported all that it used.
func release(tx *state.Tx, j *job.Job, acked bool) error {
	tx.EndService(j, true)
	if cost := j.Lease.GetClaims().GetCostNanoUsd(); acked || cost > 0 {
		tx.LearnCost(j.Queue, cost)
	}
	if j.Lease.GetClaims() == nil {
		return nil
	}
	if err := settleBudgets(tx, j); err != nil {
		return err
	}
	if err := releaseProvider(tx, j, acked); err != nil {
		return err
	}
	j.Lease.Claims = nil
	return nil
}
