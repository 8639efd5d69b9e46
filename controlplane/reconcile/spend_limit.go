package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// The pace of the duty of spend limits.
const (
	// rateEvery is the shortest time between two ratings of an organisation, because its leaders deliver usage each minute.
	rateEvery = time.Minute
	// spendPause is the shortest time between two passes over the limits, because each change of a document begins one.
	spendPause = 250 * time.Millisecond
)

// rated is what an organisation owed when it was rated last.
type rated struct {
	basis  ratingBasis
	at     time.Time
	spend  money.Nano
	failed bool      // there is no spend, because the rating has failed
	due    time.Time // of the next proposal, so that one that fails or changes nothing is not repeated at once
}

// ratingBasis is what a bill depends on. A rating of the same basis gives the same bill. A correction changes asOfNs, because
// it is a source of usage.
type ratingBasis struct {
	month, hour    time.Time
	asOfNs, planNs int64
}

// mustRate reports whether an organisation is to be rated again. A new month does not wait, because it ends holds.
func (l rated) mustRate(basis ratingBasis, now time.Time) bool {
	if now.Sub(l.at) >= rateEvery {
		return l.failed || l.basis != basis
	}
	return !l.failed && !l.basis.month.Equal(basis.month)
}

// watchSpend compares the bills of organisations with their spend limits during one term, until ctx ends. It runs beside
// the passes of the reconciler, because rating many organisations must not delay a step.
func (r *Reconciler) watchSpend(ctx context.Context, term uint64) {
	book := make(map[tenancy.OrgID]rated)
	for ctx.Err() == nil {
		_, changed := r.cfg.Store.Changes()
		book = r.checkSpend(ctx, term, book)
		pause, tick := time.NewTimer(spendPause), time.NewTimer(Tick)
		select {
		case <-ctx.Done():
		case <-pause.C:
			select {
			case <-ctx.Done():
			case <-changed:
			case <-tick.C:
			}
		}
		pause.Stop()
		tick.Stop()
	}
}

// checkSpend rates the organisations that have a limit and are due, and proposes RecordSpend where it would change
// something. book has what earlier passes have rated, and checkSpend returns what the next pass needs. An organisation
// that fails is tried again, and does not hold the others up.
func (r *Reconciler) checkSpend(ctx context.Context, term uint64, book map[tenancy.OrgID]rated) map[tenancy.OrgID]rated {
	now := r.cfg.Now()
	limits, err := r.cfg.Store.SpendLimits(ctx, now)
	if err != nil {
		if ctx.Err() == nil {
			r.cfg.Logger.Error("the spend limits cannot be read; the reconciler tries again", "error", err)
		}
		return book
	}
	month, _ := billing.Month.Window(now, time.UTC)
	next := make(map[tenancy.OrgID]rated, len(limits))
	for _, limit := range limits {
		last, known := book[limit.Org]
		basis := ratingBasis{month, now.UTC().Truncate(time.Hour), limit.AsOfNs, limit.PlanNs}
		if !known || last.mustRate(basis, now) {
			spend, err := r.rate(ctx, limit.Org, now)
			if err != nil && ctx.Err() == nil {
				r.cfg.Logger.Error("the bill of an organisation with a spend limit cannot be rated; the reconciler tries again", "organisation", limit.Org, "error", err)
			}
			last = rated{basis: basis, at: now, spend: spend, failed: err != nil}
		}
		if !last.failed && limit.Changes(last.spend) && !now.Before(last.due) {
			last.due = now.Add(Tick)
			if err := r.recordSpend(ctx, term, limit.Org, last.spend, month); err != nil && ctx.Err() == nil {
				r.cfg.Logger.Warn("the spend of an organisation was not recorded; the reconciler tries again", "organisation", limit.Org, "error", err)
			}
		}
		next[limit.Org] = last
	}
	return next
}

// rate returns what an organisation owes for the running month.
func (r *Reconciler) rate(ctx context.Context, org tenancy.OrgID, now time.Time) (money.Nano, error) {
	month, err := r.cfg.Store.MonthUsage(ctx, org, now)
	if err != nil {
		return 0, err
	}
	bill, err := billing.Rate(billing.Rating{Month: now, Usage: month.Usage, History: month.History, Book: r.cfg.Plans})
	return bill.Subtotal, err
}

// recordSpend proposes RecordSpend. The store refuses it if the limit is gone or the month has ended meanwhile, which is
// no error.
func (r *Reconciler) recordSpend(ctx context.Context, term uint64, org tenancy.OrgID, spend money.Nano, month time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, StepTimeout)
	defer cancel()
	_, err := store.ProposeInTerm[*store.RecordSpendResult](ctx, r.cfg.Store, term, &store.RecordSpend{
		Meta: &store.Meta{Principal: Principal}, Org: string(org), MonthNs: month.UnixNano(), SpendNanoUsd: int64(spend),
	})
	if errors.Is(err, &api.Error{Code: api.StateConflict}) {
		return nil
	}
	return err
}
