package server

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// invoiceRoutes returns the routes of invoices. Nobody changes an invoice: the leader makes them.
func (s *Server) invoiceRoutes() []serve.Route {
	const path = cloud + "/orgs/{org}/invoices"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.BillingRead, Handler: s.listInvoices, Query: paging,
			Summary: "List the final invoices of an organisation, newest first", Response: invoicePage{}},
		{Method: "GET", Path: path + "/preview", Permission: tenancy.BillingRead, Handler: s.previewInvoice,
			Query:   []serve.Param{{Name: "format", Doc: "json, the default, or csv for the columns of FOCUS 1.2"}},
			Summary: "Preview the invoice of the running month", Response: api.InvoicePreview{}},
		{Method: "GET", Path: path + "/{invoice}", Permission: tenancy.BillingRead, Handler: s.getInvoice,
			Summary: "Get a final invoice by its number", Response: api.Invoice{}},
	}
}

// previewInvoice rates the usage of the running month as the close would.
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
	month, err := s.store.MonthUsage(r.Context(), org.ID, s.cfg.Now())
	if err != nil {
		return err
	}
	lines, sums, cost, err := month.Rate(s.plans)
	if err != nil {
		return fmt.Errorf("rate the running month of %s: %w", org.ID, err)
	}
	if csv {
		return s.writeFocus(w, r, org, month.StartNs, lines, sums)
	}
	return serve.WriteJSON(w, http.StatusOK, api.InvoicePreview{
		InvoiceSums: toInvoiceSums(month.StartNs, billing.USD, sums), Lines: toInvoiceLines(lines, month.StartNs), LLMCost: toLLMCost(cost), AsOf: optional(month.AsOfNs),
	})
}

func (s *Server) listInvoices(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	list := "invoices of " + string(org.ID)
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	var before int64
	if after != "" {
		if before, err = strconv.ParseInt(after, 10, 64); err != nil {
			return api.Errorf(api.ValidationError, "the cursor does not belong to this list: send the cursor of a page unchanged")
		}
	}
	found, err := s.store.Invoices(r.Context(), org.ID, before, limit+1)
	if err != nil {
		return err
	}
	return writePage(w, list, limit, found, func(i store.Invoice) string { return strconv.FormatInt(i.Number, 10) }, toInvoiceSummary)
}

func (s *Server) getInvoice(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.BillingRead)
	if err != nil {
		return err
	}
	number, ok := store.ParseInvoiceNumber(r.PathValue("invoice"))
	if !ok {
		return api.Errorf(api.NotFound, "there is no invoice %s: numbers are like %s", text.Quote(r.PathValue("invoice")), store.InvoiceNumber(12))
	}
	i, err := s.store.Invoice(r.Context(), org.ID, number)
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Invoice{InvoiceSummary: toInvoiceSummary(i), Lines: toInvoiceLines(i.Lines, i.StartNs), LLMCost: toLLMCost(i.LLMCost)})
}

func toInvoiceSummary(i store.Invoice) api.InvoiceSummary {
	return api.InvoiceSummary{
		Number: store.InvoiceNumber(i.Number), Status: string(i.Status), InvoiceSums: toInvoiceSums(i.StartNs, i.Currency, i.InvoiceSums),
		Complete: i.Complete, RatedSHA256: hex.EncodeToString(i.RatedHash), FinalisedAt: timeOf(i.FinalisedNs),
	}
}

func toInvoiceSums(startNs int64, currency string, s billing.InvoiceSums) api.InvoiceSums {
	return api.InvoiceSums{
		Period: time.Unix(0, startNs).UTC().Format("2006-01"), Currency: currency, Rounding: s.Rounding.String(), Subtotal: s.Subtotal.String(),
		Credits: s.Credits.String(), CarriedForward: s.Carried.String(), Total: s.Total.String(),
	}
}

// toInvoiceLines converts the lines of the invoice of a month. A line of usage gets the URL of the usage of its own month.
func toInvoiceLines(lines []billing.InvoiceLine, startNs int64) []api.InvoiceLine {
	out := []api.InvoiceLine{}
	for _, l := range lines {
		line := api.InvoiceLine{Meter: l.Item, Namespace: l.Namespace, Tier: l.Tier, PriceVersion: l.PriceVersion,
			Quantity: l.Quantity, Per: l.Per, UnitPrice: l.UnitPrice.String(), Amount: l.Amount.String()}
		start, end := billing.Month.Window(time.Unix(0, l.MonthNs).UTC(), time.UTC)
		if l.MonthNs != startNs {
			line.Late = start.Format("2006-01")
		}
		if l.Namespace != "" {
			line.RowsURL = fmt.Sprintf("%s/namespaces/%s/usage?from=%s&to=%s&group_by=day", cloud, l.Namespace, start.Format(time.DateOnly), end.Format(time.DateOnly))
		}
		out = append(out, line)
	}
	return out
}

func toLLMCost(c billing.LLMCost) api.LLMCost {
	out := api.LLMCost{Total: c.Total.String(), ByModel: []api.ModelCost{}}
	for _, m := range c.ByModel {
		out.ByModel = append(out.ByModel, api.ModelCost{Provider: m.Provider, Model: m.Model, Cost: m.Cost.String()})
	}
	return out
}
