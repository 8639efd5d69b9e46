package server

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/controlplane/fleet"
)

// billFormat reads the format that a request asks for: json or csv.
func billFormat(r *http.Request) (csv bool, err error) {
	switch format := r.URL.Query().Get("format"); format {
	case "", "json":
		return false, nil
	case "csv":
		return true, nil
	default:
		return false, api.Errorf(api.ValidationError, "format: %s is none: use json or csv", text.Quote(format))
	}
}

// writeFocus writes the preview of an invoice as CSV in the columns of FOCUS.
func (s *Server) writeFocus(w http.ResponseWriter, r *http.Request, org fleet.Org, startNs int64, lines []billing.InvoiceLine, sums billing.InvoiceSums) error {
	found, err := s.store.Namespaces(r.Context(), org.ID, "", MaxPage)
	if err != nil {
		return err
	}
	month := time.Unix(0, startNs).UTC()
	preview := billing.FocusInvoice{Org: string(org.ID), OrgName: org.Name, Namespaces: map[string]string{}, Month: month, Lines: lines, InvoiceSums: sums}
	for _, n := range found {
		preview.Namespaces[string(n.ID)] = n.Name
	}
	var out bytes.Buffer // an error must not follow the header of a success
	if err := preview.Write(&out); err != nil {
		return fmt.Errorf("write the preview of %s as CSV: %w", org.ID, err)
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%s-%s.csv", org.Name, month.Format("2006-01")))
	_, err = w.Write(out.Bytes())
	return err
}
