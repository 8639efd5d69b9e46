package server

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// billingRoutes returns the routes about plans and platform prices.
func (s *Server) billingRoutes() []serve.Route {
	return []serve.Route{
		{Method: "GET", Path: cloud + "/orgs/{org}/plan", Permission: tenancy.BillingRead, Handler: s.getPlan,
			Summary: "Get the plan of an organisation", Response: api.PlanHistory{}},
		{Method: "PUT", Path: cloud + "/orgs/{org}/plan", Permission: tenancy.BillingManage, Handler: s.setPlan,
			Summary: "Change the plan of an organisation", Description: "A higher plan begins at the next whole hour, a lower plan with the next month in UTC. The change replaces one that has not begun. Only operators may change to or from committed, and give overrides.",
			Request: api.SetPlanRequest{}, Response: api.PlanHistory{}},
		{Method: "GET", Path: cloud + "/prices", Permission: tenancy.UsageRead, Handler: s.listPlatformPrices,
			Summary: "Get the plans and the platform prices", Response: api.PlatformPrices{}},
	}
}

func (s *Server) getPlan(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	return s.writePlan(w, r, org)
}

func (s *Server) setPlan(w http.ResponseWriter, r *http.Request) error {
	var body api.SetPlanRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingManage)
	if err != nil {
		return err
	}
	var f faults
	f.plan(body.Plan)
	overrides := f.overrides(body.Overrides)
	if err := f.err(); err != nil {
		return err
	}
	_, err = propose[any](r.Context(), s, &store.SetPlan{Meta: q.meta, Org: string(org.ID), Plan: body.Plan, Overrides: overrides, Operator: q.operates()})
	if err != nil {
		return err
	}
	return s.writePlan(w, r, org)
}

// plan checks the name of a plan.
func (f *faults) plan(name string) {
	switch {
	case billing.Plan(name).Known():
	case name == "resale":
		f.unsupported("plan", "resale is not built yet, because the ledger does not tell computed from reported costs: use one of %v", billing.Plans)
	default:
		f.add("plan", "%s is none: use one of %v", text.Quote(name), billing.Plans)
	}
}

// overrides converts the overrides of a request to JSON; nil = none. It adds what is wrong with them.
func (f *faults) overrides(of *api.PlanOverrides) []byte {
	if of == nil {
		return nil
	}
	o := billing.Overrides{Fee: f.dollars("overrides.monthly_fee", of.MonthlyFee), Minimum: f.dollars("overrides.minimum", of.Minimum), Discount: of.DiscountPercent}
	for i, p := range of.Prices {
		price := billing.PlatformPrice{Meter: p.Meter, Per: p.Per, Included: p.Included}
		for j, t := range p.Tiers {
			if amount := f.dollars(fmt.Sprintf("overrides.prices[%d].tiers[%d].unit_price", i, j), &t.UnitPrice); amount != nil {
				price.Tiers = append(price.Tiers, billing.Tier{UpTo: t.UpTo, Price: *amount})
			}
		}
		o.Prices = append(o.Prices, price)
	}
	encoded, err := json.Marshal(o)
	switch {
	case err != nil:
		f.add("overrides", "are not valid: %v", err)
	case string(encoded) == "{}":
		return nil
	}
	return encoded
}

// dollars parses an amount of dollars; nil = absent or not valid.
func (f *faults) dollars(field string, amount *string) *money.Nano {
	if amount == nil {
		return nil
	}
	n, err := api.ParseUSD(*amount)
	if err != nil {
		f.add(field, "%s is no amount of dollars: write it like 12.5, with at most nine decimals", text.Quote(*amount))
		return nil
	}
	return &n
}

// writePlan writes the history of an organisation's plan.
func (s *Server) writePlan(w http.ResponseWriter, r *http.Request, org fleet.Org) error {
	changes, err := s.store.PlanHistory(r.Context(), org.ID)
	if err != nil {
		return err
	}
	var history []billing.PlanChange
	out := api.PlanHistory{Changes: []api.PlanChange{}}
	for _, c := range changes {
		history = append(history, c.PlanChange)
		out.Changes = append(out.Changes, api.PlanChange{Plan: string(c.Plan), From: timeOf(c.FromNs), Overrides: toOverrides(c.Overrides), By: c.By, At: timeOf(c.AtNs)})
	}
	now := s.cfg.Now().UnixNano()
	present := billing.PlanAt(history, now)
	version, err := s.plans.At(present, now)
	if err != nil {
		return err
	}
	out.Plan, out.From, out.Charges = string(present.Plan), optional(present.FromNs), toPlanVersion(version)
	return serve.WriteJSON(w, http.StatusOK, out)
}

func (s *Server) listPlatformPrices(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.begin(r, nil); err != nil {
		return err
	}
	out := api.PlatformPrices{Currency: billing.USD}
	for _, p := range billing.Plans {
		for _, v := range s.plans.Versions(p) {
			out.Versions = append(out.Versions, toPlanVersion(v))
		}
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}
