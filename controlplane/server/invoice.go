package server

import (
	"fmt"
	"net/http"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// previewInvoice rates the usage of the running month.
func (s *Server) previewInvoice(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	csv, err := billFormat(r)
	if err != nil {
		return err
	}
	now := s.cfg.Now()
	month, err := s.store.MonthUsage(r.Context(), org.ID, now)
	if err != nil {
		return err
	}
	bill, err := billing.Rate(billing.Rating{Month: now, Usage: month.Usage, History: month.History, Book: s.plans})
	if err != nil {
		return fmt.Errorf("rate the running month of %s: %w", org.ID, err)
	}
	if csv {
		return s.writeFocus(w, r, org, bill, bill.Use(month.Credits))
	}
	preview := toInvoicePreview(bill, bill.Use(month.Credits))
	preview.AsOf = optional(month.AsOfNs)
	return serve.WriteJSON(w, http.StatusOK, preview)
}
