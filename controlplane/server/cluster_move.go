package server

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy/keyring"
)

// moveCluster moves the member of a namespace on one host to another host. It answers before the groups have followed the
// new list: a repeat tells whether they have.
func (s *Server) moveCluster(w http.ResponseWriter, r *http.Request) error {
	var body api.MoveClusterRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	ns, err := s.cluster(r)
	if err != nil {
		return err
	}
	from, to, err := s.ends(r.Context(), body)
	if err != nil {
		return err
	}
	step, err := s.cfg.Reconciler.Move(r.Context(), ns, from.ID, to.ID)
	if err != nil {
		return err
	}
	status := api.ClusterMoving
	switch {
	case step.Kind == plan.Await:
		return api.Errorf(api.StateConflict, "namespace %s does not move from %s to %s: %s", ns.ID, from.Name, to.Name, step.Reason)
	case step.Kind == plan.Change:
		_, err = propose[any](r.Context(), s, &store.PlaceNamespace{Meta: q.meta, Id: string(ns.ID), Generation: ns.Generation, Stores: step.Stores})
		if err != nil {
			return err
		}
	case ns.Observed == ns.Generation:
		status = api.ClusterMoved
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: status})
}

// ends returns the two hosts that a move names.
func (s *Server) ends(ctx context.Context, body api.MoveClusterRequest) (from, to fleet.Host, err error) {
	var f faults
	if body.From == "" {
		f.add("from", "is missing: name the host that the member leaves")
	}
	if body.To == "" {
		f.add("to", "is missing: name the host that gets the member")
	}
	if err := f.err(); err != nil {
		return from, to, err
	}
	if from, err = s.dataHost(ctx, body.From); err != nil {
		return from, to, err
	}
	if to, err = s.dataHost(ctx, body.To); err != nil {
		return from, to, err
	}
	if from.ID == to.ID {
		f.add("to", "is the same host as from: name another one")
	}
	return from, to, f.err()
}

// dataHost finds a host by id or name, and refuses a gateway.
func (s *Server) dataHost(ctx context.Context, idOrName string) (fleet.Host, error) {
	h, err := s.findHost(ctx, idOrName)
	if err == nil && h.Kind != keyring.Host {
		err = api.Errorf(api.StateConflict, "%s is a gateway: it holds no namespaces; name a host", h.Name)
	}
	return h, err
}
