package store

import (
	"fmt"
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// SetPlan changes the plan of an organisation, or its overrides, from the hour that billing.PlanBegins computes.

// MaxOverrides bounds the JSON of an organisation's overrides, in bytes.
const MaxOverrides = 16 << 10

// Validate refuses an op that no state could accept.
func (o *SetPlan) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("org", checkID(o.Org))
	if !billing.Plan(o.Plan).Known() {
		p.add("plan", fmt.Errorf("is %q: use one of %v", o.Plan, billing.Plans))
	}
	if len(o.Overrides) > MaxOverrides {
		p.add("overrides", fmt.Errorf("has %d bytes; at most %d are allowed", len(o.Overrides), MaxOverrides))
		return p.err()
	}
	if _, err := billing.ParseOverrides(o.Overrides); err != nil {
		p.add("overrides", fmt.Errorf("are not valid: %w", err))
	}
	return p.err()
}

// Apply adds the change to the history, in place of changes that have not begun. It refuses with NOT_FOUND an unknown
// organisation. It refuses with FORBIDDEN a change by a tenant if the new plan, the present one or one that has not begun is
// an agreement with the operators. If the organisation has the plan already, Apply only removes the changes that have not
// begun.
func (o *SetPlan) Apply(tx *Tx) (*SetPlanResult, error) {
	org, err := tx.org(tenancy.OrgID(o.Org))
	if err != nil {
		return nil, err
	}
	history, err := planHistory(tx, org.ID)
	if err != nil {
		return nil, err
	}
	now := tx.clockNs()
	present := planRow{plan: billing.Free}
	var later []planRow
	for _, c := range history {
		if c.fromNs <= now {
			present = c
		} else {
			later = append(later, c)
		}
	}
	becomes := planRow{plan: billing.Plan(o.Plan), overrides: string(o.Overrides)}
	if !o.Operator && slices.ContainsFunc(append(later, present, becomes), planRow.agreed) {
		return nil, api.Errorf(api.Forbidden, "the plan %s and overrides are agreed with the operators of the cloud: ask them for the change", billing.Committed)
	}
	same := present.plan == becomes.plan && present.overrides == becomes.overrides
	if same && len(later) == 0 {
		return &SetPlanResult{}, nil
	}
	if _, err := tx.exec("DELETE FROM plan_changes WHERE org = ? AND from_ns > ?", o.Org, now); err != nil {
		return nil, err
	}
	if !same {
		err := tx.put("INSERT INTO plan_changes (org, from_ns, plan, overrides, principal, at_ns) VALUES (?, ?, ?, ?, ?, ?)",
			o.Org, billing.PlanBegins(present.plan, becomes.plan, now), o.Plan, []byte(becomes.overrides), o.GetMeta().GetPrincipal(), now)
		if err != nil {
			return nil, err
		}
	}
	return &SetPlanResult{}, tx.audit(o.Meta, org.ID, o.Org+"/"+o.Plan)
}
