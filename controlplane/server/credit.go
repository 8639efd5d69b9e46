package server

import (
	"cmp"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// maxCreditLife bounds how far ahead the expiry of a credit may lie.
const maxCreditLife = 10 * 365 * 24 * time.Hour

// creditRoutes returns the routes of credits. Billing readers of an organisation see its credits, and operators of the
// cloud change them.
func (s *Server) creditRoutes() []serve.Route {
	const path = cloud + "/orgs/{org}/credits"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.BillingRead, Handler: s.listCredits, Query: paging,
			Summary: "List the credits of an organisation, oldest first", Response: creditPage{}},
		{Method: "POST", Path: path, Permission: tenancy.FleetOperate, Handler: s.grantCredit,
			Summary: "Grant a credit to an organisation", Description: "The credit is pending if operators alone would grant more than 1,000 USD to the organisation in the calendar month. A second operator then approves it.",
			Request: api.GrantCreditRequest{}, Response: api.Credit{}, Status: http.StatusCreated},
		{Method: "GET", Path: path + "/{credit}", Permission: tenancy.BillingRead, Handler: s.getCredit,
			Summary: "Get a credit", Response: api.Credit{}},
		{Method: "POST", Path: path + "/{credit}/approve", Permission: tenancy.FleetOperate, Handler: s.approveCredit,
			Summary: "Approve a pending credit", Description: "The operator must be another than the one who granted it, with a key that is older than the credit.", Response: api.Credit{}},
		{Method: "POST", Path: path + "/{credit}/revoke", Permission: tenancy.FleetOperate, Handler: s.revokeCredit,
			Summary: "Revoke the unused rest of a credit", Description: "A pending credit is withdrawn.", Request: api.RevokeCreditRequest{}, Response: api.Credit{}},
	}
}

func (s *Server) listCredits(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	list := "credits of " + string(org.ID)
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	found, err := s.store.Credits(r.Context(), org.ID, after, limit+1)
	if err != nil {
		return err
	}
	return writePage(w, list, limit, found, func(c store.Credit) string { return c.ID }, toCredit)
}

func (s *Server) getCredit(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	return s.writeCredit(w, r, http.StatusOK, org, r.PathValue("credit"))
}

func (s *Server) grantCredit(w http.ResponseWriter, r *http.Request) error {
	var body api.GrantCreditRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.FleetOperate)
	if err != nil {
		return err
	}
	var f faults
	expires := f.creditExpiry(body.ExpiresAt, s.cfg.Now())
	if err := f.err(); err != nil {
		return err
	}
	id, err := s.newID(creditPrefix)
	if err != nil {
		return err
	}
	o := &store.GrantCredit{
		Meta: q.meta, Id: id, Org: string(org.ID), Currency: cmp.Or(body.Currency, billing.USD), Amount: int64(body.AmountUSD), Reason: body.Reason, ExpiresNs: expires,
	}
	made, err := propose[*store.GrantCreditResult](r.Context(), s, o)
	if err != nil {
		return err
	}
	w.Header().Set("Location", cloud+"/orgs/"+string(org.ID)+"/credits/"+made.Id)
	return s.writeCredit(w, r, http.StatusCreated, org, made.Id)
}

// creditExpiry reads the expiry of a credit in Unix nanoseconds; 0 = none.
func (f *faults) creditExpiry(given api.Time, now time.Time) int64 {
	switch at, ok, err := given.Parse(); {
	case err != nil:
		f.add("expires_at", "%v", err)
	case ok && !at.After(now):
		f.add("expires_at", "%s is over already", given)
	case ok && at.After(now.Add(maxCreditLife)):
		f.add("expires_at", "lies more than %d days ahead: leave it out for a credit that does not expire", maxCreditLife/(24*time.Hour))
	case ok:
		return at.UnixNano()
	}
	return 0
}

func (s *Server) approveCredit(w http.ResponseWriter, r *http.Request) error {
	return s.changeCredit(w, r, nil, func(meta *store.Meta, id string) store.Op {
		return store.ApproveCredit(meta, id)
	})
}

func (s *Server) revokeCredit(w http.ResponseWriter, r *http.Request) error {
	var body api.RevokeCreditRequest
	return s.changeCredit(w, r, &body, func(meta *store.Meta, id string) store.Op {
		return &store.RevokeCredit{Meta: meta, Id: id, Reason: body.Reason}
	})
}

// changeCredit reads a body, commits an op on the credit that the path names, and writes the credit.
func (s *Server) changeCredit(w http.ResponseWriter, r *http.Request, body any, opOf func(meta *store.Meta, id string) store.Op) error {
	q, err := s.begin(r, body)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.FleetOperate)
	if err != nil {
		return err
	}
	c, err := s.store.Credit(r.Context(), org.ID, r.PathValue("credit"))
	if err != nil {
		return err
	}
	if _, err := propose[any](r.Context(), s, opOf(q.meta, c.ID)); err != nil {
		return err
	}
	return s.writeCredit(w, r, http.StatusOK, org, c.ID)
}

func (s *Server) writeCredit(w http.ResponseWriter, r *http.Request, status int, org fleet.Org, id string) error {
	c, err := s.store.Credit(r.Context(), org.ID, id)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, status, toCredit(c))
}

func toCredit(c store.Credit) api.Credit {
	return api.Credit{
		ID: c.ID, Org: string(c.Org), Status: c.Status, Currency: c.Currency, AmountUSD: c.Amount, RestUSD: c.Rest, Reason: c.Reason,
		GrantedBy: c.Principal, ApprovedBy: c.Approver, CreatedAt: timeOf(c.CreatedNs), GrantedAt: optional(c.GrantedNs), ExpiresAt: optional(c.ExpiresNs), EndedAt: optional(c.EndedNs),
	}
}
