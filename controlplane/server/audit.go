package server

import (
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// listAudit lists what was changed in an organisation, oldest first.
func (s *Server) listAudit(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.OrgRead)
	if err != nil {
		return err
	}
	list := "audit of " + string(org.ID)
	limit, text, err := pageOf(r, list)
	if err != nil {
		return err
	}
	var after int64
	if text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			return api.Errorf(api.ValidationError, "cursor: it is not one that a page of this list came with")
		}
	}
	found, err := s.store.Audit(r.Context(), org.ID, after, limit+1)
	if err != nil {
		return err
	}
	place := func(a store.AuditRow) string { return strconv.FormatInt(a.Seq, 10) }
	return writePage(w, list, limit, found, place, func(a store.AuditRow) api.AuditRow {
		return api.AuditRow{
			Seq: a.Seq, At: timeOf(a.AtNs), Principal: a.Principal, Action: a.Action, Target: a.Target,
			Refused: api.Code(a.Refused), Count: a.Count, Hash: hex.EncodeToString(a.Hash),
		}
	})
}
