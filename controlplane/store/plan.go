package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// planRow is a row of the table plan_changes.
type planRow struct {
	fromNs    int64
	plan      billing.Plan
	overrides string // JSON; "" = none
	principal string
	atNs      int64
}

// agreed reports whether only operators make such a change.
func (r planRow) agreed() bool { return r.plan == billing.Committed || r.overrides != "" }

func scanPlanRow(rows *sql.Rows) (r planRow, err error) {
	var overrides []byte
	err = rows.Scan(&r.fromNs, &r.plan, &overrides, &r.principal, &r.atNs)
	r.overrides = string(overrides)
	return r, err
}

// planHistory lists the changes of an organisation's plan in the order of their hours.
func planHistory(q querier, org tenancy.OrgID) ([]planRow, error) {
	return list(q, scanPlanRow, "SELECT from_ns, plan, overrides, principal, at_ns FROM plan_changes WHERE org = ? ORDER BY from_ns", string(org))
}

// PlanChange is a row of the history of an organisation's plan.
type PlanChange struct {
	billing.PlanChange
	By   string // id of the credential that made it
	AtNs int64  // when it was made
}

// PlanHistory lists the changes of an organisation's plan in the order of their hours, those that have not begun too. It is
// empty for an organisation that has had no plan but billing.Free.
func (s *Store) PlanHistory(ctx context.Context, org tenancy.OrgID) ([]PlanChange, error) {
	return read(ctx, s, func(r reader) ([]PlanChange, error) { return planChanges(r, org) })
}

func planChanges(q querier, org tenancy.OrgID) (all []PlanChange, err error) {
	rows, err := planHistory(q, org)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		o, err := billing.ParseOverrides([]byte(row.overrides))
		if err != nil {
			return nil, fmt.Errorf("the plan of %s from %d: %w", org, row.fromNs, err)
		}
		all = append(all, PlanChange{billing.PlanChange{FromNs: row.fromNs, Plan: row.plan, Overrides: o}, row.principal, row.atNs})
	}
	return all, nil
}

// MonthUsage is what the ledger knows of an organisation's month, at one position of the state.
type MonthUsage struct {
	Usage   []billing.HourUsage
	History []billing.PlanChange
	// AsOfNs is the time of the last frame of the organisation's namespaces that was applied or set aside, or of their last
	// correction, whatever its hours; 0 = never.
	AsOfNs int64
	// Credits are the rests of the active credits that do not expire before the month ends.
	Credits money.Count
}

// MonthUsage returns the usage of an organisation in the calendar month in UTC around a moment, deleted namespaces included,
// the history of its plan and its credits. It sums over queues, because no line of a bill depends on them. It refuses with NOT_FOUND an
// unknown organisation.
func (s *Store) MonthUsage(ctx context.Context, org tenancy.OrgID, month time.Time) (MonthUsage, error) {
	return read(ctx, s, func(r reader) (m MonthUsage, err error) {
		namespaces, args, err := usageOf(r, UsageQuery{Org: org})
		if err != nil {
			return m, err
		}
		changes, err := planChanges(r, org)
		if err != nil {
			return m, err
		}
		for _, c := range changes {
			m.History = append(m.History, c.PlanChange)
		}
		if m.AsOfNs, err = usageAsOf(r, namespaces, args); err != nil {
			return m, err
		}
		start, end := billing.Month.Window(month, time.UTC)
		m.Credits, _, err = first(r, scanHalves, "SELECT COALESCE(SUM(rest >> 31), 0), COALESCE(SUM(rest & 2147483647), 0) FROM credits WHERE org = ? AND currency = ? AND (expires_ns = 0 OR expires_ns >= ?)",
			string(org), billing.USD, end.UnixNano())
		if err != nil {
			return m, err
		}
		// Only the cost is needed by model. SQLite refuses a sum of more than 63 bits, so that it sums the
		// halves of the quantities.
		args = append(append([]any{int64(billing.Cost), int64(billing.Cost)}, args...), start.UnixNano(), end.UnixNano())
		m.Usage, err = list(r, scanHourUsage, "SELECT hour_ns, namespace, meter, iif(meter = ?, provider, ''), iif(meter = ?, model, ''), SUM(quantity >> 31), SUM(quantity & 2147483647)"+
			" FROM usage_hourly WHERE namespace IN ("+namespaces+") AND hour_ns >= ? AND hour_ns < ? GROUP BY 1, 2, 3, 4, 5", args...)
		return m, err
	})
}

func scanHourUsage(rows *sql.Rows) (u billing.HourUsage, err error) {
	var high, low int64
	err = rows.Scan(&u.HourNs, &u.Namespace, &u.Meter, &u.Provider, &u.Model, &high, &low)
	u.Quantity = money.CountOfHalves(high, low)
	return u, err
}
