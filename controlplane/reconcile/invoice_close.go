package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// The pace of the closer.
const (
	// closeEvery is the pause between two looks for months to invoice.
	closeEvery = time.Minute
	// closeTries bounds how often the closer rates a month in one look, because usage that arrives in between refuses the op.
	closeTries = 3
)

// closerPrincipal is the name of the closer in the audit log and in the ledger.
const closerPrincipal = "closer"

// CloserConfig holds the dependencies of a Closer. All are required.
type CloserConfig struct {
	Store  *store.Store
	Plans  *billing.PlanBook
	Now    func() time.Time
	Logger *slog.Logger
}

// Closer makes the invoices of months that are over, one at a time (ADR 0091). It keeps nothing in memory: the state says
// which months have no invoice, so that the next leader continues where this one stopped.
type Closer struct{ cfg CloserConfig }

// NewCloser returns a closer; Run starts it.
func NewCloser(c CloserConfig) *Closer { return &Closer{c} }

// Run closes months whenever this process leads the control plane, until ctx ends or the store fails.
func (c *Closer) Run(ctx context.Context) {
	err := c.cfg.Store.Lead(ctx, func(ctx context.Context, term uint64) error {
		for ctx.Err() == nil {
			c.Pass(ctx, term)
			timer := time.NewTimer(closeEvery)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		c.cfg.Logger.Error("no month is closed any more, because the store has stopped", "error", err)
	}
}

// Pass closes the months that are due and whose usage is complete, for all organisations. It logs a month that it cannot
// close, goes on with the next organisation, and leaves that month to the next pass.
func (c *Closer) Pass(ctx context.Context, term uint64) {
	var after tenancy.OrgID
	for ctx.Err() == nil {
		due, err := c.cfg.Store.DueInvoices(ctx, c.cfg.Now(), after, store.MaxPage)
		if err != nil {
			c.cfg.Logger.Warn("the months that are due were not read; the closer tries again", "error", err)
			return
		}
		for _, d := range due {
			c.closeMonths(ctx, term, d)
		}
		if len(due) < store.MaxPage {
			return
		}
		after = due[len(due)-1].Org
	}
}

// closeMonths closes the due months of an organisation in order, until one is not complete yet.
func (c *Closer) closeMonths(ctx context.Context, term uint64, d store.DueInvoice) {
	for now := c.cfg.Now(); d.EndNs <= now.UnixNano() && ctx.Err() == nil; {
		if err := c.cfg.Store.InvoiceReady(ctx, d.Org, d.EndNs, now); err != nil {
			if api.CodeOf(err) != api.StateConflict { // else usage may still come
				c.fail(ctx, d, err)
			}
			return
		}
		number, err := c.closeMonth(ctx, term, d)
		if err != nil {
			c.fail(ctx, d, err)
			return
		}
		c.cfg.Logger.Info("an invoice is final", "org", d.Org, "month", monthOf(d), "invoice", store.InvoiceNumber(number))
		_, next := billing.MonthBefore(d.EndNs + 1)
		d.EndNs = next
	}
}

// closeMonth rates a month and makes its invoice. It rates again if usage has arrived in between.
func (c *Closer) closeMonth(ctx context.Context, term uint64, d store.DueInvoice) (number int64, err error) {
	for range closeTries {
		month, err := c.cfg.Store.MonthUsage(ctx, d.Org, time.Unix(0, d.EndNs-1))
		if err != nil {
			return 0, err
		}
		o, err := month.Finalise(&store.Meta{Principal: closerPrincipal}, d.Org, c.cfg.Plans)
		if err != nil {
			return 0, err
		}
		step, cancel := context.WithTimeout(ctx, StepTimeout)
		made, err := store.ProposeInTerm[*store.FinaliseInvoiceResult](step, c.cfg.Store, term, o)
		cancel()
		if err == nil {
			return made.Number, nil
		}
		if api.CodeOf(err) != api.StateConflict {
			return 0, err
		}
	}
	return 0, api.Errorf(api.StateConflict, "usage has arrived %d times while the month was rated", closeTries)
}

// fail logs a month that was not closed, unless the leadership has ended.
func (c *Closer) fail(ctx context.Context, d store.DueInvoice, err error) {
	if ctx.Err() == nil {
		c.cfg.Logger.Error("a month has no invoice; the closer tries again", "org", d.Org, "month", monthOf(d), "error", err)
	}
}

// monthOf formats the month that is due, such as 2026-02.
func monthOf(d store.DueInvoice) string { return time.Unix(0, d.EndNs-1).UTC().Format("2006-01") }
