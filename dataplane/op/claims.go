package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// An attempt holds more than its job: money that budgets reserve for it, tokens of its provider, and a part
// of its fairness key's share. It takes all of this when the job is leased and gives it back when the attempt
// ends, however it ends. The store refuses a job that stops being active while it still holds any.

// claim takes everything that a beginning attempt needs. j is leased, but not put yet.
func claim(tx *state.Tx, j *job.Job) error {
	if err := tx.BeginService(j); err != nil {
		return err
	}
	if err := claimProvider(tx, j); err != nil {
		return err
	}
	return reserveBudgets(tx, j)
}

// claims returns the claims of a running attempt, which the caller may change.
func claims(j *job.Job) *job.Claims {
	if j.Lease.Claims == nil {
		j.Lease.Claims = &job.Claims{}
	}
	return j.Lease.Claims
}

// giveUp returns everything that an ending attempt of an active job holds. The attempt has reported its
// spending before.
func giveUp(tx *state.Tx, j *job.Job) error { return release(tx, j, false) }

// release does the work of giveUp. acked means that the attempt ends with success, so it has reported all its
// usage.
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
