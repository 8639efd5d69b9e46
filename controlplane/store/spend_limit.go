package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// SpendLimit is the limit of an organisation's bill for each calendar month in UTC.
type SpendLimit struct {
	Org       tenancy.OrgID
	Limit     money.Nano // without raises
	Raised    money.Nano // sum of the raises that have not expired
	Own       money.Nano // part of Raised that the organisation approved by itself
	Principal string     // who set it
	AtNs      int64
	HeldNs    int64 // since when no job starts; 0 = jobs start
	Alerted   int64 // highest share, in percent, with an alert in the month; 0 = none
	// AsOfNs is the time of the organisation's newest usage, and PlanNs that of the newest change of its plan; 0 = never.
	AsOfNs, PlanNs int64
}

// Effective returns the limit with the raises that have not expired.
func (l SpendLimit) Effective() money.Nano { return l.Limit + l.Raised } // fits: see MaxSpendLimit and MaxRaises

// Changes reports whether RecordSpend would record an alert, or would change whether jobs start.
func (l SpendLimit) Changes(spend money.Nano) bool {
	percent := billing.SpendPercent(spend, l.Effective())
	return percent > l.Alerted || (percent >= billing.HoldPercent) != (l.HeldNs != 0)
}

// SpendRaise is a temporary raise of a spend limit.
type SpendRaise struct {
	ID                   string
	Org                  tenancy.OrgID
	Amount               money.Nano
	Reason, Approver     string
	Operator             bool // an operator of the cloud approved it
	CreatedNs, ExpiresNs int64
}

// SpendAlert says that a bill has reached a share of the limit.
type SpendAlert struct {
	Percent       int64
	Spend, Amount money.Nano // then; Amount is the limit with raises
	AtNs          int64
}

// selectSpendLimit selects limits with the raises, alerts and usage at a time ?1 of a month that begins at ?2.
const selectSpendLimit = `SELECT org, amount,
	(SELECT COALESCE(SUM(r.amount), 0) FROM spend_raises r WHERE r.org = l.org AND r.expires_ns > ?1),
	(SELECT COALESCE(SUM(r.amount), 0) FROM spend_raises r WHERE r.org = l.org AND r.expires_ns > ?1 AND r.operator = 0),
	principal, at_ns, held_ns,
	(SELECT COALESCE(MAX(a.percent), 0) FROM spend_alerts a WHERE a.org = l.org AND a.month_ns = ?2),
	(SELECT COALESCE(MAX(u.applied_ns), 0) FROM namespaces n JOIN usage_sources u ON u.namespace = n.id WHERE n.org = l.org),
	(SELECT COALESCE(MAX(p.at_ns), 0) FROM plan_changes p WHERE p.org = l.org)
	FROM spend_limits l`

func scanSpendLimit(rows *sql.Rows) (l SpendLimit, err error) {
	err = rows.Scan(&l.Org, &l.Limit, &l.Raised, &l.Own, &l.Principal, &l.AtNs, &l.HeldNs, &l.Alerted, &l.AsOfNs, &l.PlanNs)
	return l, err
}

const selectSpendRaise = "SELECT id, org, amount, reason, approver, operator, created_ns, expires_ns FROM spend_raises"

func scanSpendRaise(rows *sql.Rows) (r SpendRaise, err error) {
	err = rows.Scan(&r.ID, &r.Org, &r.Amount, &r.Reason, &r.Approver, &r.Operator, &r.CreatedNs, &r.ExpiresNs)
	return r, err
}

func scanSpendAlert(rows *sql.Rows) (a SpendAlert, err error) {
	err = rows.Scan(&a.Percent, &a.Spend, &a.Amount, &a.AtNs)
	return a, err
}

// monthOf returns the first nanosecond of the calendar month in UTC with a time.
func monthOf(ns int64) int64 {
	startNs, _ := billing.MonthBefore(ns + 1)
	return startNs
}

// spendLimit returns the limit of an organisation at a time; found is false if it has none.
func spendLimit(q querier, org string, atNs int64) (l SpendLimit, found bool, err error) {
	return first(q, scanSpendLimit, selectSpendLimit+" WHERE org = ?3", atNs, monthOf(atNs), org)
}

// noSpendLimit returns the refusal of an op for an organisation without a limit.
func noSpendLimit(org string) *api.Error {
	return api.Errorf(api.StateConflict, "organisation %s has no spend limit: set one first", org)
}

// SpendLimits lists the limits of all organisations that have one, at a time, in the order of their ids.
func (s *Store) SpendLimits(ctx context.Context, at time.Time) ([]SpendLimit, error) {
	return read(ctx, s, func(r reader) ([]SpendLimit, error) {
		return list(r, scanSpendLimit, selectSpendLimit+" ORDER BY org", at.UnixNano(), monthOf(at.UnixNano()))
	})
}

// SpendStatus is the limit of an organisation, with the alerts of a month and the raises that were made in it or have
// not expired.
type SpendStatus struct {
	Limit  *SpendLimit // nil = none
	Alerts []SpendAlert
	Raises []SpendRaise
}

// SpendStatus returns the limit of an organisation at a time.
func (s *Store) SpendStatus(ctx context.Context, org tenancy.OrgID, at time.Time) (SpendStatus, error) {
	return read(ctx, s, func(r reader) (status SpendStatus, err error) {
		l, found, err := spendLimit(r, string(org), at.UnixNano())
		if err != nil {
			return status, err
		}
		if found {
			status.Limit = &l
		}
		startNs := monthOf(at.UnixNano())
		status.Alerts, err = list(r, scanSpendAlert, "SELECT percent, spend, amount, at_ns FROM spend_alerts WHERE org = ? AND month_ns = ? ORDER BY percent", string(org), startNs)
		if err != nil {
			return status, err
		}
		status.Raises, err = list(r, scanSpendRaise, selectSpendRaise+" WHERE org = ? AND (created_ns >= ? OR expires_ns > ?) ORDER BY created_ns, id", string(org), startNs, at.UnixNano())
		return status, err
	})
}

// touchPlacements gives new numbers to the placements of an organisation's living namespaces, because its hold has changed.
func (tx *Tx) touchPlacements(org tenancy.OrgID) error {
	return tx.touchAll("SELECT id FROM namespaces WHERE org = ? AND "+isLiving+" ORDER BY id", string(org))
}

// isHeld reports whether the organisation has reached its spend limit.
func isHeld(q querier, org tenancy.OrgID) (bool, error) {
	n, err := number(q, "SELECT COUNT(*) FROM spend_limits WHERE org = ? AND held_ns > 0", string(org))
	return n > 0, err
}
