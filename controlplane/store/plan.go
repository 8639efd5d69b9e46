package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/billing"
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
