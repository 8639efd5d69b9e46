package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// org returns the organisation in the path, named by id or name. An organisation in which the caller lacks
// the permission is reported as not found.
func (s *Server) org(q request, what tenancy.Permission) (fleet.Org, error) {
	return s.orgNamed(q, what, q.PathValue("org"))
}

func (s *Server) orgNamed(q request, what tenancy.Permission, idOrName string) (fleet.Org, error) {
	org, err := s.store.Org(q.Context(), idOrName)
	if err != nil && api.CodeOf(err) != api.NotFound {
		return fleet.Org{}, err
	}
	if err != nil || !q.allowed(what, org.ID) {
		return fleet.Org{}, api.Errorf(api.NotFound, "there is no organisation %s", text.Quote(idOrName))
	}
	return org, nil
}

func (s *Server) createOrg(w http.ResponseWriter, r *http.Request) error {
	var body api.CreateOrgRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	var f faults
	f.name(body.Name)
	if err := f.err(); err != nil {
		return err
	}
	id, err := s.newID(orgPrefix)
	if err != nil {
		return err
	}
	made, err := propose[*store.CreateOrgResult](r.Context(), s, &store.CreateOrg{Meta: q.meta, Id: id, Name: body.Name})
	if err != nil {
		return err
	}
	org, err := s.store.Org(r.Context(), made.Id)
	if err != nil {
		return err
	}
	w.Header().Set("Location", cloud+"/orgs/"+made.Id)
	return writeResource(w, http.StatusCreated, org.Version, toOrg(org))
}

// listOrgs lists all organisations for an operator, and for a tenant its own organisation.
func (s *Server) listOrgs(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	const list = "orgs"
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	var found []fleet.Org
	if q.operates() {
		found, err = s.store.Orgs(r.Context(), tenancy.OrgID(after), limit+1)
	} else {
		var own fleet.Org
		own, err = s.store.Org(r.Context(), string(q.who.Org))
		if string(own.ID) > after {
			found = append(found, own)
		}
	}
	if err != nil {
		return err
	}
	return writePage(w, list, limit, found, func(o fleet.Org) string { return string(o.ID) }, toOrg)
}

func (s *Server) getOrg(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	org, err := s.org(q, tenancy.OrgRead)
	if err != nil {
		return err
	}
	return writeResource(w, http.StatusOK, org.Version, toOrg(org))
}
