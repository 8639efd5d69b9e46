package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// The states of a correction. Only an applied one is in the journal and in the sums of usage.
const (
	CorrectionPending  = "pending"  // waits for a second person
	CorrectionApplied  = "applied"  // usage contains it
	CorrectionRejected = "rejected" // an operator refused it, or its proposer withdrew it
)

// Correction is a change of the usage of a namespace that one operator proposes and another one approves.
type Correction struct {
	ID          string
	Org         tenancy.OrgID
	Namespace   tenancy.NamespaceID
	billing.Row // its Quantity is added to the sum of the hour; negative = taken away
	Reason      string
	Status      string
	Principal   string // the operator who proposed it
	CreatedNs   int64
	Decider     string // the operator who approved or rejected it; "" = it is pending
	DecidedNs   int64  // 0 = it is pending
	Rejection   string // reason of the rejection; "" = it was not rejected
}

const correctionColumns = "id, org, namespace, hour_ns, queue, model, provider, meter, quantity, reason, status, principal, created_ns, decider, decided_ns, rejection"

const selectCorrection = "SELECT " + correctionColumns + " FROM usage_corrections"

func scanCorrection(rows *sql.Rows) (c Correction, err error) {
	err = rows.Scan(&c.ID, &c.Org, &c.Namespace, &c.HourNs, &c.Queue, &c.Model, &c.Provider, &c.Meter, &c.Quantity,
		&c.Reason, &c.Status, &c.Principal, &c.CreatedNs, &c.Decider, &c.DecidedNs, &c.Rejection)
	return c, err
}

func noCorrection(id string) *api.Error {
	return api.Errorf(api.NotFound, "there is no correction %q", id)
}

// correction finds a correction by id, else NOT_FOUND.
func correction(q querier, id string) (Correction, error) {
	c, found, err := first(q, scanCorrection, selectCorrection+" WHERE id = ?", id)
	if err == nil && !found {
		err = noCorrection(id)
	}
	return c, err
}

// Correction finds a correction of an organisation by id, else NOT_FOUND.
func (s *Store) Correction(ctx context.Context, org tenancy.OrgID, id string) (Correction, error) {
	return read(ctx, s, func(r reader) (Correction, error) {
		c, err := correction(r, id)
		if err == nil && c.Org != org {
			return Correction{}, noCorrection(id)
		}
		return c, err
	})
}

// Corrections lists, by id, the corrections of an organisation with an id above after: at most limit, and at most MaxPage.
func (s *Store) Corrections(ctx context.Context, org tenancy.OrgID, after string, limit int) ([]Correction, error) {
	return read(ctx, s, func(r reader) ([]Correction, error) {
		return list(r, scanCorrection, selectCorrection+" WHERE org = ? AND id > ? ORDER BY id LIMIT ?", string(org), after, page(limit))
	})
}

// corrected sums the applied corrections of namespaces, given as the SQL and arguments of usageOf, by meter. The last two
// arguments are the range of hours.
func corrected(q querier, namespaces string, args []any) (sum billing.Totals, err error) {
	sums, err := list(q, scanUsageSum, "SELECT '', meter, SUM(quantity >> 31), SUM(quantity & 2147483647) FROM usage_corrections WHERE namespace IN ("+
		namespaces+") AND hour_ns >= ? AND hour_ns < ? AND status = 'applied' GROUP BY 2", args...)
	for _, s := range sums {
		sum[s.meter] = s.quantity
	}
	return sum, err
}

// checkCorrection refuses a correction that the present state does not allow: with VALIDATION_ERROR an hour that has not
// begun, and with STATE_CONFLICT a sum that would be negative. It runs at the proposal and at the approval, because the
// state may have changed between them. An hour of a month that has an invoice is corrected as late usage.
func (tx *Tx) checkCorrection(c Correction) error {
	if c.HourNs > tx.clockNs() {
		return api.Errorf(api.ValidationError, "the hour %s has not begun: correct usage of an hour that has", hourText(c.HourNs))
	}
	has, _, err := first(tx, scanHalves, "SELECT COALESCE(SUM(quantity >> 31), 0), COALESCE(SUM(quantity & 2147483647), 0) FROM usage_hourly"+
		" WHERE namespace = ? AND hour_ns = ? AND queue = ? AND model = ? AND provider = ? AND meter = ?",
		string(c.Namespace), c.HourNs, c.Queue, c.Model, c.Provider, int64(c.Meter))
	if err != nil {
		return err
	}
	if has.Add(money.CountOf(c.Quantity)).Negative() {
		refusal := api.Errorf(api.StateConflict, "the total of %s in the hour %s, with this queue, model and provider, is %s: a correction of %d would make it negative, take away at most %s",
			c.Meter, hourText(c.HourNs), has, c.Quantity, has)
		refusal.Details = map[string]any{"total": has}
		return refusal
	}
	return nil
}

// hourText formats the start of an hour.
func hourText(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339) }

// correctionStream begins the stream of a correction in the journal. No host and no gateway may send usage of such a stream.
const correctionStream = "correction/"

// applyCorrection adds a correction to the journal and to the sums, by a second person. If checkCorrection refuses the
// correction, it still waits.
func (tx *Tx) applyCorrection(m *Meta, id string) error {
	c, err := correction(tx, id)
	if err != nil {
		return fmt.Errorf("correction %s waits for approval: %w", id, err)
	}
	if err := tx.checkCorrection(c); err != nil {
		return err
	}
	// The correction is a source of its own with one frame of one row, so that all readers of the journal see it.
	frame := &ApplyUsage{Namespace: string(c.Namespace), Stream: correctionStream + id, From: 1, To: 1}
	row := &UsageRow{HourNs: c.HourNs, Queue: c.Queue, Model: c.Model, Provider: c.Provider, Meter: uint32(c.Meter), Quantity: c.Quantity}
	until, err := invoicedUntil(tx, c.Org)
	if err != nil {
		return err
	}
	if err := tx.addUsage(frame, 0, row, c.Org, until); err != nil {
		return err
	}
	if err := tx.putSource(frame.Namespace, frame.Stream, frame.Incarnation, frame.To); err != nil {
		return err
	}
	if err := tx.decideCorrection(m, id, CorrectionApplied, ""); err != nil {
		return err
	}
	return tx.audit(m, c.Org, id)
}

// decideCorrection records who decided about a pending correction, and how.
func (tx *Tx) decideCorrection(m *Meta, id, status, rejection string) error {
	return tx.put("UPDATE usage_corrections SET status = ?, decider = ?, decided_ns = ?, rejection = ? WHERE id = ?", status, m.GetPrincipal(), tx.clockNs(), rejection, id)
}
