package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// Besides its job, an attempt holds money that budgets reserve for it, tokens of its provider, and a charge
// on its lane. It takes all three when the job is leased, and a heartbeat may reserve more money. It gives
// all three back when it ends, however it ends. The store refuses a job that stops being active while its
// attempt still holds one of them.

// reserveAttempt takes everything that a beginning attempt needs. j is leased, but not put yet.
func reserveAttempt(tx *state.Tx, j *job.Job) error {
	if err := tx.BeginService(j); err != nil {
		return err
	}
	if err := reserveProvider(tx, j); err != nil {
		return err
	}
	return reserveBudgets(tx, j)
}

// reservation returns the reservation of a running attempt, which the caller may change, and creates it if
// needed.
func reservation(j *job.Job) *job.Reservation {
	if j.Lease.Reservation == nil {
		j.Lease.Reservation = &job.Reservation{}
	}
	return j.Lease.Reservation
}

// releaseReservation gives back everything that an ending attempt holds. The caller must already have
// reported the attempt's spending. For a job without a running attempt releaseReservation does nothing.
func releaseReservation(tx *state.Tx, j *job.Job) error { return endReservation(tx, j, false) }

// endReservation gives back everything that an ending attempt holds. acked means that the attempt ends with
// success, so its reports are complete and count in the moving averages even if they are zero.
func endReservation(tx *state.Tx, j *job.Job, acked bool) error {
	tx.EndService(j, true)
	if cost := j.Lease.GetReservation().GetCostNanoUsd(); acked || cost > 0 {
		tx.LearnCost(j.Queue, cost)
	}
	if j.Lease.GetReservation() == nil {
		return nil
	}
	if err := settleBudgets(tx, j); err != nil {
		return err
	}
	if err := releaseProvider(tx, j, acked); err != nil {
		return err
	}
	j.Lease.Reservation = nil
	return nil
}
