package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/cluster"
	"github.com/corvo/corvo/tenancy"
)

// Cluster is the set of the control plane's processes. *cluster.Cluster implements it.
type Cluster interface {
	// Nodes returns the known data of all processes, sorted by ID.
	Nodes() []cluster.Node
	// URL returns the address of a process for clients, or "" if it is not known.
	URL(id string) string
	// Members returns the members of a shard as its leader sees them. The control plane has shard 0 only.
	Members(ctx context.Context, shard int) ([]engine.Member, error)
	// CheckRemovable returns NOT_FOUND for an unknown process, and STATE_CONFLICT if the quorum would be lost
	// without it.
	CheckRemovable(ctx context.Context, id string) error
	// Remove removes a process. It can be repeated until it succeeds.
	Remove(ctx context.Context, id string) error
}

const (
	// processesWait is the longest time that a list of the processes waits for the leader's answer.
	processesWait = 2 * time.Second
	// processRemovalWait is the longest time that the removal of a process may take.
	processRemovalWait = 30 * time.Second
)

// processRoutes returns the routes for the processes of the control plane.
func (s *Server) processRoutes() []serve.Route {
	const path = cloud + "/processes"
	return []serve.Route{
		{Method: "GET", Path: path, Permission: tenancy.FleetOperate, Handler: s.listProcesses, Query: paging,
			Summary: "List the processes of the control plane", Response: processPage{}},
		{Method: "DELETE", Path: path + "/{id}", Permission: tenancy.FleetOperate, Handler: s.removeProcess,
			Summary: "Remove a process of the control plane for ever", Description: "It is refused if fewer than a majority of the other voters would be alive, and by the process itself. A leader hands its leadership over first. A removed process does not start again with its data directory.", Response: api.Status{}},
	}
}

// listProcesses lists all processes as the leader sees them.
func (s *Server) listProcesses(w http.ResponseWriter, r *http.Request) error {
	const list = "processes"
	limit, after, err := pageOf(r, list)
	if err != nil {
		return err
	}
	all, err := s.processes(r.Context())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p api.Process) bool { return p.ID <= after })
	return writePage(w, list, limit, all, func(p api.Process) string { return p.ID }, func(p api.Process) api.Process { return p })
}

// processes returns all processes, sorted by ID.
func (s *Server) processes(ctx context.Context) (all []api.Process, err error) {
	group := s.store.Group()
	members := group.Members()
	about := map[string]cluster.Node{}
	if s.cfg.Cluster == nil { // the only member is this process
		about[members[0].ID] = cluster.Node{Self: true, Version: s.cfg.Version, Level: store.FeatureLevel}
	} else {
		ctx, cancel := context.WithTimeout(ctx, processesWait)
		defer cancel()
		if members, err = s.cfg.Cluster.Members(ctx, 0); err != nil {
			return nil, err
		}
		for _, n := range s.cfg.Cluster.Nodes() {
			about[n.ID] = n
		}
	}
	leader := group.LeaderID()
	for _, m := range members {
		n := about[m.ID]
		p := api.Process{
			ID: m.ID, Role: api.ProcessLearner, Self: n.Self, Address: n.Address, URL: n.HTTP,
			LastContactMs: -1, Lag: m.Lag, Version: n.Version, Level: n.Level,
		}
		if m.LastContact >= 0 {
			p.LastContactMs = m.LastContact.Milliseconds()
		}
		switch {
		case m.ID == leader:
			p.Role = api.ProcessLeader
		case m.Voter:
			p.Role = api.ProcessVoter
		}
		all = append(all, p)
	}
	return all, nil
}

// removeProcess removes a process. The audit row comes before the removal, so that no process is removed without a row.
func (s *Server) removeProcess(w http.ResponseWriter, r *http.Request) error {
	q, err := s.begin(r, nil)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	ctx, cancel := context.WithTimeout(r.Context(), processRemovalWait)
	defer cancel()
	if err := s.checkRemovable(ctx, id); err != nil {
		return err
	}
	if _, err := propose[any](ctx, s, &store.RemoveProcess{Meta: q.meta, Id: id}); err != nil {
		return err
	}
	if err := s.cfg.Cluster.Remove(ctx, id); err != nil {
		return err
	}
	return serve.WriteJSON(w, http.StatusOK, api.Status{Status: "removed"})
}

// checkRemovable refuses an unknown process, the process that answers, and one without which the others would have no
// majority. It changes nothing.
func (s *Server) checkRemovable(ctx context.Context, id string) error {
	all, err := s.processes(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(p api.Process) bool { return p.ID == id })
	switch {
	case i < 0:
		return api.Errorf(api.NotFound, "the control plane has no process %s: GET /cloud/v1/processes lists them", text.Quote(id))
	case len(all) == 1:
		return api.Errorf(api.StateConflict, "%s is the only process of the control plane: have another one join first", id)
	case all[i].Self:
		// Its answer would depend on a group that it is no longer in.
		return api.Errorf(api.StateConflict, "%s answers this request, and no process removes itself: send the request to another process", id)
	}
	return s.cfg.Cluster.CheckRemovable(ctx, id)
}
