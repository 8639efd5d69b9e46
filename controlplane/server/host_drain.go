package server

import (
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// hostDrainRoutes returns the routes that empty a host.
func (s *Server) hostDrainRoutes() []serve.Route {
	const path = cloud + "/hosts/{host}"
	return []serve.Route{
		{Method: "POST", Path: path + "/drain", Permission: tenancy.FleetOperate, Handler: s.drainHost, Conditions: versioned,
			Summary: "Empty a host", Description: "The host gets no namespaces, and those that are there move to other hosts. The status is drained once none is left, and draining before.", Response: api.Status{}},
		{Method: "POST", Path: path + "/undrain", Permission: tenancy.FleetOperate, Handler: s.undrainHost, Conditions: versioned,
			Summary: "End the drain of a host", Description: "Namespaces that have left the host do not come back by themselves.", Response: api.Status{}},
	}
}

func (s *Server) drainHost(w http.ResponseWriter, r *http.Request) error {
	host, err := s.changeHost(r, func(meta *store.Meta, id string, version int64) store.Op {
		return &store.DrainHost{Meta: meta, Id: id, ExpectVersion: version}
	})
	if err != nil {
		return err
	}
	status := api.HostDraining
	if host.Namespaces == 0 {
		status = api.HostDrained
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: status})
}

func (s *Server) undrainHost(w http.ResponseWriter, r *http.Request) error {
	_, err := s.changeHost(r, func(meta *store.Meta, id string, version int64) store.Op {
		return &store.UndrainHost{Meta: meta, Id: id, ExpectVersion: version}
	})
	if err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "undrained"})
}

// changeHost commits an op on the host or gateway that the path names, and returns the host as it was before.
func (s *Server) changeHost(r *http.Request, opOf func(meta *store.Meta, id string, version int64) store.Op) (fleet.Host, error) {
	q, err := s.begin(r, nil)
	if err != nil {
		return fleet.Host{}, err
	}
	host, err := s.hostNamed(r)
	if err != nil {
		return fleet.Host{}, err
	}
	version, err := expected(r, host.Version)
	if err != nil {
		return fleet.Host{}, err
	}
	_, err = propose[any](r.Context(), s, opOf(q.meta, host.ID, version))
	return host, err
}
