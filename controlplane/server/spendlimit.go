package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// spendLimitRoutes returns the routes of spend limits.
func (s *Server) spendLimitRoutes() []serve.Route {
	const path = cloud + "/orgs/{org}/spend-limit"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.BillingRead, Handler: s.getSpendLimit,
			Summary: "Get the spend limit of an organisation", Description: "The spend is the subtotal of the preview of the running month's bill.", Response: api.SpendLimit{}},
		{Method: "PUT", Path: path, Permission: tenancy.BillingManage, Handler: s.setSpendLimit,
			Summary: "Set the spend limit of an organisation", Description: "While the bill of the month has reached the limit, no job starts. Acks and enqueues are accepted.",
			Request: api.SetSpendLimitRequest{}, Response: api.SpendLimit{}},
		{Method: "DELETE", Path: path, Permission: tenancy.BillingManage, Handler: s.clearSpendLimit,
			Summary: "Remove the spend limit of an organisation", Response: api.SpendLimit{}},
		{Method: "POST", Path: path + "/raise", Permission: tenancy.BillingManage, Handler: s.raiseSpendLimit,
			Summary: "Raise a spend limit for a time", Description: "An organisation may raise its limit by as much again, over all raises that have not expired. Operators of the cloud may raise it by more.",
			Request: api.RaiseSpendLimitRequest{}, Response: api.SpendLimit{}, Status: http.StatusCreated},
	}
}

func (s *Server) getSpendLimit(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	return s.writeSpendLimit(w, r, http.StatusOK, org)
}

func (s *Server) setSpendLimit(w http.ResponseWriter, r *http.Request) error {
	var body api.SetSpendLimitRequest
	return s.changeSpendLimit(w, r, &body, http.StatusOK, func(q request, org string) (store.Op, error) {
		limit := int64(body.LimitUSD)
		return &store.SetSpendLimit{Meta: q.meta, Org: org, LimitNanoUsd: &limit}, nil
	})
}

func (s *Server) clearSpendLimit(w http.ResponseWriter, r *http.Request) error {
	return s.changeSpendLimit(w, r, nil, http.StatusOK, func(q request, org string) (store.Op, error) {
		return &store.SetSpendLimit{Meta: q.meta, Org: org}, nil
	})
}

func (s *Server) raiseSpendLimit(w http.ResponseWriter, r *http.Request) error {
	var body api.RaiseSpendLimitRequest
	return s.changeSpendLimit(w, r, &body, http.StatusCreated, func(q request, org string) (store.Op, error) {
		var f faults
		at, given, err := body.ExpiresAt.Parse()
		switch {
		case err != nil:
			f.add("expires_at", "%v", err)
		case !given:
			f.add("expires_at", "is missing: a raise ends at most %d days later", store.MaxRaisePeriod/(24*time.Hour))
		}
		if err := f.err(); err != nil {
			return nil, err
		}
		id, err := s.newID(raisePrefix)
		return &store.RaiseSpendLimit{
			Meta: q.meta, Id: id, Org: org, AmountNanoUsd: int64(body.AmountUSD), Reason: body.Reason, ExpiresNs: at.UnixNano(), Operator: q.operates(),
		}, err
	})
}

// changeSpendLimit reads a body, commits an op on the limit of the organisation that the path names, and writes the limit.
func (s *Server) changeSpendLimit(w http.ResponseWriter, r *http.Request, body any, status int, opOf func(q request, org string) (store.Op, error)) error {
	q, err := s.begin(r, body)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingManage)
	if err != nil {
		return err
	}
	o, err := opOf(q, string(org.ID))
	if err != nil {
		return err
	}
	if _, err := propose[any](r.Context(), s, o); err != nil {
		return err
	}
	return s.writeSpendLimit(w, r, status, org)
}

// writeSpendLimit rates the running month and writes the limit with the spend.
func (s *Server) writeSpendLimit(w http.ResponseWriter, r *http.Request, status int, org fleet.Org) error {
	now := s.cfg.Now()
	month, err := s.store.MonthUsage(r.Context(), org.ID, now)
	if err != nil {
		return err
	}
	bill, err := billing.Rate(billing.Rating{Month: now, Usage: month.Usage, History: month.History, Book: s.plans})
	if err != nil {
		return fmt.Errorf("rate the running month of %s: %w", org.ID, err)
	}
	found, err := s.store.SpendStatus(r.Context(), org.ID, now)
	if err != nil {
		return err
	}
	out := toSpendLimit(found, bill)
	out.AsOf = optional(month.AsOfNs)
	return serve.WriteJSON(w, status, out)
}

func toSpendLimit(found store.SpendStatus, bill billing.Bill) api.SpendLimit {
	out := api.SpendLimit{Period: bill.Start.Format("2006-01"), SpendUSD: bill.Subtotal, Alerts: []api.SpendAlert{}, Raises: []api.SpendRaise{}}
	if l := found.Limit; l != nil {
		limit, effective := l.Limit, l.Effective()
		out.LimitUSD, out.EffectiveUSD, out.OverLimitUSD = &limit, &effective, max(0, bill.Subtotal-effective)
		out.Held, out.HeldSince = l.HeldNs != 0, optional(l.HeldNs)
		out.SetBy, out.SetAt = l.Principal, optional(l.AtNs)
	}
	for _, a := range found.Alerts {
		out.Alerts = append(out.Alerts, api.SpendAlert{Percent: a.Percent, At: timeOf(a.AtNs), SpendUSD: a.Spend, LimitUSD: a.Amount})
	}
	for _, r := range found.Raises {
		out.Raises = append(out.Raises, api.SpendRaise{
			ID: r.ID, AmountUSD: r.Amount, Reason: r.Reason, ApprovedBy: r.Approver, Operator: r.Operator, CreatedAt: timeOf(r.CreatedNs), ExpiresAt: timeOf(r.ExpiresNs),
		})
	}
	return out
}
