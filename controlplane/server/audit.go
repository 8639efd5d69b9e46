package server

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// noOrg is the value of ?org= for the rows that belong to no organisation. The names and ids of organisations
// begin with a letter, so none of them is "-".
const noOrg = "-"

// auditParams are the query parameters of listAllAudit.
var auditParams = append([]serve.Param{{Name: "org", Doc: "id or name of an organisation, - for the rows of none; default all rows"}}, paging...)

// listAudit lists the changes and refused requests of an organisation, oldest first.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.OrgRead)
	if err != nil {
		return err
	}
	return s.writeAudit(w, r, org.ID)
}

// listAllAudit lists the audit log for operators: all rows, the rows of one organisation, or the rows that
// belong to no organisation.
func (s *Server) listAllAudit(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	switch named := r.URL.Query().Get("org"); named {
	case "":
		return s.writeAudit(w, r, tenancy.EveryOrg)
	case noOrg:
		return s.writeAudit(w, r, "")
	default:
		org, err := s.orgNamed(q, tenancy.OrgRead, named)
		if err != nil {
			return err
		}
		return s.writeAudit(w, r, org.ID)
	}
}

// writeAudit writes a page of the audit log. It refuses a cursor of another list. store.Audit documents the values of
// org.
func (s *Server) writeAudit(w http.ResponseWriter, r *http.Request, org tenancy.OrgID) error {
	list := "audit of " + string(org)
	limit, text, err := pageOf(r, list)
	if err != nil {
		return err
	}
	var after int64
	if text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return api.Errorf(api.ValidationError, "cursor: it does not belong to this list")
		}
	}
	found, err := s.store.Audit(r.Context(), org, after, limit+1)
	if err != nil {
		return err
	}
	position := func(a store.AuditRow) string { return strconv.FormatInt(a.Seq, 10) }
	return writePage(w, list, limit, found, position, func(a store.AuditRow) api.AuditRow {
		return api.AuditRow{
			Seq: a.Seq, At: timeOf(a.AtNs), Org: string(a.Org), Principal: a.Principal, Action: a.Action, Target: a.Target,
			Refused: api.Code(a.Refused), Count: a.Count, Hash: hex.EncodeToString(a.Hash),
		}
	})
}
