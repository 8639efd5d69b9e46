package server

import (
	"net/http"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/tenancy"
)

// MaxOperationWait is the longest ?wait= of an operation.
const MaxOperationWait = time.Minute

// operation returns the operation named in the path, if the caller may read namespaces of its organisation.
func (s *Server) operation(q request) (fleet.Operation, error) {
	id := q.PathValue("id")
	o, err := s.store.Operation(q.Context(), id)
	if err != nil && api.CodeOf(err) != api.NotFound {
		return fleet.Operation{}, err
	}
	if err != nil || !q.allowed(tenancy.NamespaceRead, o.Org) {
		return fleet.Operation{}, api.Errorf(api.NotFound, "there is no operation %s", text.Quote(id))
	}
	return o, nil
}

// writeOperation writes an operation with status 202. If the request is a repeat, the operation may have
// ended already.
func (s *Server) writeOperation(w http.ResponseWriter, r *http.Request, id string) error {
	o, err := s.store.Operation(r.Context(), id)
	if err != nil {
		return err
	}
	w.Header().Set("Location", cloud+"/operations/"+id)
	return serve.WriteJSON(w, http.StatusAccepted, s.toOperation(o))
}

// getOperation writes an operation. With ?wait= it first waits until the operation has ended, the given time
// is over, or the server drains.
func (s *Server) getOperation(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	wait, err := api.Duration(r.URL.Query().Get("wait")).Parse(0)
	if err == nil && wait > MaxOperationWait {
		err = api.Errorf(api.ValidationError, "it is %v; it must be at most %v", wait, MaxOperationWait)
	}
	if err != nil {
		return api.Errorf(api.ValidationError, "wait: %v", err)
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for waiting := wait > 0; ; {
		// The channel is read before the operation, so that any later change ends the wait.
		_, changed := s.store.Changes()
		o, err := s.operation(q)
		if err != nil {
			return err
		}
		if !waiting || o.Status != fleet.Running {
			return serve.WriteJSON(w, http.StatusOK, s.toOperation(o))
		}
		select {
		case <-changed:
		case <-over.C:
			waiting = false
		case <-s.draining.Done():
			waiting = false
		case <-r.Context().Done():
			return r.Context().Err()
		}
		if _, err := s.authenticate(r); err != nil {
			return err // the credential was revoked or has expired during the wait, or no leader can be reached
		}
	}
}

// listOperations lists an organisation's operations, newest first. An operator must name the organisation. A
// tenant sees those of its own organisation.
func (s *Server) listOperations(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("org")
	if name == "" && q.operates() {
		return api.Errorf(api.ValidationError, "org is missing: name the organisation")
	}
	if name == "" {
		name = string(q.who.Org)
	}
	org, err := s.orgNamed(q, tenancy.NamespaceRead, name)
	if err != nil {
		return err
	}
	list := "operations of " + string(org.ID)
	limit, before, err := pageOf(r, list)
	if err != nil {
		return err
	}
	found, err := s.store.Operations(r.Context(), org.ID, before, limit+1)
	if err != nil {
		return err
	}
	return writePage(w, list, limit, found, func(o fleet.Operation) string { return o.ID }, s.toOperation)
}
