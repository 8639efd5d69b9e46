package server

import (
	"context"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/tenancy"
)

// A cluster is the set of data-plane cells of one namespace. It has the namespace's id, and comes and goes with the
// namespace.

// clusterRoutes returns the routes for clusters.
func (s *Server) clusterRoutes() []serve.Route {
	const path = cloud + "/clusters"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.FleetOperate, Handler: s.leaderOnly(s.listClusters), Query: paging,
			Summary: "List the data-plane clusters of all namespaces", Response: clusterPage{}},
		{Method: "GET", Path: path + "/{id}", Permission: tenancy.FleetOperate, Handler: s.leaderOnly(s.getCluster),
			Summary: "Get the data-plane cluster of a namespace", Description: "A cluster has the id of its namespace.", Response: api.CloudCluster{}},
		{Method: "POST", Path: path + "/{id}/pause-reconcile", Permission: tenancy.FleetOperate, Handler: s.pauseReconcile,
			Summary: "Pause the reconciliation of a namespace", Description: "The control plane makes no step for the namespace until resume-reconcile. Hosts go on following its document.", Response: api.Status{}},
		{Method: "POST", Path: path + "/{id}/resume-reconcile", Permission: tenancy.FleetOperate, Handler: s.resumeReconcile,
			Summary: "Resume the reconciliation of a namespace", Response: api.Status{}},
		{Method: "POST", Path: path + "/{id}/move", Permission: tenancy.FleetOperate, Handler: s.leaderOnly(s.moveCluster),
			Summary: "Move a member of a namespace to another host", Description: "Both hosts are named by id or name. The status is moved once the move has ended, and moving before. A repeat changes nothing.", Request: api.MoveClusterRequest{}, Response: api.Status{}},
		{Method: "POST", Path: path + "/{id}/recover", Permission: tenancy.FleetOperate, Handler: s.leaderOnly(s.recoverCluster),
			Summary: "Recover a namespace that has lost its quorum", Description: "The groups are refounded from the copy on one host, and the other members are given up: acknowledged writes that the copy lacks are lost. The status is recovered once the groups take writes, and recovering before.", Request: api.RecoverClusterRequest{}, Response: api.RecoverCluster{}},
	}
}

// cluster returns the namespace whose id the path names as a cluster.
func (s *Server) cluster(r *http.Request) (fleet.Namespace, error) {
	id := r.PathValue("id")
	ns, err := s.store.Namespace(r.Context(), "", id)
	if api.CodeOf(err) == api.NotFound {
		err = api.Errorf(api.NotFound, "there is no cluster %s: a cluster has the id of its namespace, which begins with %s", text.Quote(id), namespacePrefix)
	}
	return ns, err
}

// listClusters lists the clusters of all organisations.
func (s *Server) listClusters(w http.ResponseWriter, r *http.Request) error {
	const list = "clusters"
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	found, err := s.store.Namespaces(r.Context(), tenancy.EveryOrg, tenancy.NamespaceID(after), limit+1)
	if err != nil {
		return err
	}
	names, err := s.hostNames(r.Context())
	if err != nil {
		return err
	}
	return writePage(w, list, limit, found, func(n fleet.Namespace) string { return string(n.ID) }, func(n fleet.Namespace) api.CloudCluster {
		return s.toCluster(n, names)
	})
}

// hostNames returns the names of all hosts and gateways by id.
func (s *Server) hostNames(ctx context.Context) (map[string]string, error) {
	hosts, err := s.store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(hosts))
	for _, h := range hosts {
		names[h.ID] = h.Name
	}
	return names, nil
}

func (s *Server) getCluster(w http.ResponseWriter, r *http.Request) error {
	ns, err := s.cluster(r)
	if err != nil {
		return err
	}
	names, err := s.hostNames(r.Context())
	if err != nil {
		return err
	}
	return writeResource(w, http.StatusOK, ns.Version, s.toCluster(ns, names))
}

func (s *Server) pauseReconcile(w http.ResponseWriter, r *http.Request) error {
	return s.switchReconcile(w, r, "paused", func(meta *store.Meta, id string) store.Op { return &store.PauseReconcile{Meta: meta, Id: id} })
}

func (s *Server) resumeReconcile(w http.ResponseWriter, r *http.Request) error {
	return s.switchReconcile(w, r, "resumed", func(meta *store.Meta, id string) store.Op { return &store.ResumeReconcile{Meta: meta, Id: id} })
}

// switchReconcile commits an op on the reconciliation of a namespace and answers with a status.
func (s *Server) switchReconcile(w http.ResponseWriter, r *http.Request, status string, opOf func(meta *store.Meta, id string) store.Op) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	ns, err := s.cluster(r)
	if err != nil {
		return err
	}
	if _, err := propose[any](r.Context(), s, opOf(q.meta, string(ns.ID))); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: status})
}

// toCluster converts a namespace to its cluster. names has the names of hosts by id.
func (s *Server) toCluster(n fleet.Namespace, names map[string]string) api.CloudCluster {
	out := api.CloudCluster{
		Resource: toNamespaceResource(n), Org: string(n.Org), Spec: toSpec(n.Spec),
		Status: api.CloudClusterStatus{
			Phase: string(n.Phase), ObservedGeneration: n.Observed, Members: []api.CloudClusterMember{}, Operation: n.Operation,
			Waiting: s.cfg.Reconciler.Waiting(string(n.ID)), Fault: s.cfg.Reconciler.Fault(n),
		},
	}
	if n.PausedNs != 0 {
		out.Status.Pause = &api.ReconcilePause{By: n.PausedBy, At: timeOf(n.PausedNs)}
	}
	cells := s.cfg.Observations.Cells(n)
	out.Status.Groups = toGroups(n, cells, names)
	for _, m := range n.Members {
		cell := cells[m.Host]
		out.Status.Members = append(out.Status.Members, api.CloudClusterMember{
			Host: m.Host, HostName: names[m.Host], HostState: s.hostState(m.Host), Store: m.Store, StoreLost: m.Lost, Leaving: m.Leaving,
			State: cell.State, Generation: cell.Generation, Error: cell.Error, Last: positionsOf(n, m, cell),
		})
	}
	return out
}
