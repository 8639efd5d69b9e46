package server

import (
	"net/http"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// correctionRoutes returns the routes of corrections of usage. Billing readers of an organisation see them, and operators
// of the cloud propose and decide them.
func (s *Server) correctionRoutes() []serve.Route {
	const path = cloud + "/orgs/{org}/usage/corrections"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.BillingRead, Handler: s.listCorrections, Query: paging,
			Summary: "List the corrections of an organisation's usage, oldest first", Response: correctionPage{}},
		{Method: "POST", Path: path, Permission: tenancy.FleetOperate, Handler: s.proposeCorrection,
			Summary: "Propose a correction of usage", Description: "The correction changes the quantity of one meter in one hour of a namespace when a second operator approves it. It is refused if the quantity would fall below zero, or if the month is closed.",
			Request: api.ProposeCorrectionRequest{}, Response: api.Correction{}, Status: http.StatusCreated},
		{Method: "GET", Path: path + "/{correction}", Permission: tenancy.BillingRead, Handler: s.getCorrection,
			Summary: "Get a correction of usage", Response: api.Correction{}},
		{Method: "POST", Path: path + "/{correction}/approve", Permission: tenancy.FleetOperate, Handler: s.approveCorrection,
			Summary: "Apply a pending correction of usage", Description: "The operator must be another than the one who proposed it, with a key that is older than the correction.", Response: api.Correction{}},
		{Method: "POST", Path: path + "/{correction}/reject", Permission: tenancy.FleetOperate, Handler: s.rejectCorrection,
			Summary: "Reject a pending correction of usage", Description: "The operator who proposed it withdraws it in this way.", Request: api.RejectCorrectionRequest{}, Response: api.Correction{}},
	}
}

func (s *Server) listCorrections(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	list := "corrections of " + string(org.ID)
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	found, err := s.store.Corrections(r.Context(), org.ID, after, limit+1)
	if err != nil {
		return err
	}
	return writePage(w, list, limit, found, func(c store.Correction) string { return c.ID }, toCorrection)
}

func (s *Server) getCorrection(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	return s.writeCorrection(w, r, http.StatusOK, org, r.PathValue("correction"))
}

func (s *Server) proposeCorrection(w http.ResponseWriter, r *http.Request) error {
	var body api.ProposeCorrectionRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.FleetOperate)
	if err != nil {
		return err
	}
	var f faults
	meter, hourNs := f.meter(body.Meter), f.hour(body.Hour)
	if err := f.err(); err != nil {
		return err
	}
	namespace, err := s.correctedNamespace(r, org, body.Namespace)
	if err != nil {
		return err
	}
	id, err := s.newID(correctionPrefix)
	if err != nil {
		return err
	}
	made, err := propose[*store.ProposeCorrectionResult](r.Context(), s, &store.ProposeCorrection{
		Meta: q.meta, Id: id, Org: string(org.ID), Namespace: namespace, HourNs: hourNs, Queue: body.Queue, Model: body.Model, Provider: body.Provider,
		Meter: uint32(meter), Quantity: body.Quantity, Reason: body.Reason,
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", cloud+"/orgs/"+string(org.ID)+"/usage/corrections/"+made.Id)
	return s.writeCorrection(w, r, http.StatusCreated, org, made.Id)
}

// correctedNamespace returns the id of a namespace that a request names. An id need not be of a namespace that still
// exists, because usage of a deleted one is corrected too, and the op checks it.
func (s *Server) correctedNamespace(r *http.Request, org fleet.Org, idOrName string) (string, error) {
	if strings.HasPrefix(idOrName, namespacePrefix) {
		return idOrName, nil
	}
	ns, err := s.store.Namespace(r.Context(), org.ID, idOrName)
	return string(ns.ID), err
}

// meter finds a meter by its name.
func (f *faults) meter(name string) billing.Meter {
	m, known := billing.MeterNamed(name)
	if !known {
		f.add("meter", "%s is not a meter: use a name from GET %s/prices or docs/cloud.md, such as %s", text.Quote(name), cloud, billing.OutputTokens)
	}
	return m
}

// hour reads the start of an hour in Unix nanoseconds. The op checks that it is whole and has begun.
func (f *faults) hour(given api.Time) int64 {
	at, ok, err := given.Parse()
	switch {
	case err != nil:
		f.add("hour", "%v", err)
	case !ok:
		f.add("hour", "is missing: write it like 2026-02-11T10:00:00Z")
	}
	return api.UnixNs(at)
}

func (s *Server) approveCorrection(w http.ResponseWriter, r *http.Request) error {
	return s.decideCorrection(w, r, nil, func(meta *store.Meta, id string) store.Op {
		return store.ApproveCorrection(meta, id)
	})
}

func (s *Server) rejectCorrection(w http.ResponseWriter, r *http.Request) error {
	var body api.RejectCorrectionRequest
	return s.decideCorrection(w, r, &body, func(meta *store.Meta, id string) store.Op {
		return &store.RejectCorrection{Meta: meta, Id: id, Reason: body.Reason}
	})
}

// decideCorrection reads a body, commits an op on the correction that the path names, and writes the correction.
func (s *Server) decideCorrection(w http.ResponseWriter, r *http.Request, body any, opOf func(meta *store.Meta, id string) store.Op) error {
	q, err := s.begin(r, body)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.FleetOperate)
	if err != nil {
		return err
	}
	c, err := s.store.Correction(r.Context(), org.ID, r.PathValue("correction"))
	if err != nil {
		return err
	}
	if _, err := propose[any](r.Context(), s, opOf(q.meta, c.ID)); err != nil {
		return err
	}
	return s.writeCorrection(w, r, http.StatusOK, org, c.ID)
}

func (s *Server) writeCorrection(w http.ResponseWriter, r *http.Request, status int, org fleet.Org, id string) error {
	c, err := s.store.Correction(r.Context(), org.ID, id)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, status, toCorrection(c))
}

func toCorrection(c store.Correction) api.Correction {
	out := api.Correction{
		ID: c.ID, Org: string(c.Org), Namespace: string(c.Namespace), Status: c.Status, Meter: c.Meter.String(), Hour: timeOf(c.HourNs), Queue: c.Queue, Model: c.Model, Provider: c.Provider,
		Quantity: c.Quantity, Reason: c.Reason, ProposedBy: c.Principal, CreatedAt: timeOf(c.CreatedNs),
	}
	switch c.Status {
	case store.CorrectionApplied:
		out.ApprovedBy, out.AppliedAt = c.Decider, optional(c.DecidedNs)
	case store.CorrectionRejected:
		out.RejectedBy, out.RejectedAt, out.Rejection = c.Decider, optional(c.DecidedNs), c.Rejection
	}
	return out
}
