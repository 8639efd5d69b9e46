package server

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
	"github.com/corvo/corvo/controlplane/store"
)

// recoverCluster refounds the groups of a namespace that has lost its quorum from the copy on one host. It answers before
// the host has done so: a repeat tells whether it has.
func (s *Server) recoverCluster(w http.ResponseWriter, r *http.Request) error {
	var body api.RecoverClusterRequest
	q, err := s.begin(r, &body)
	if err != nil {
		return err
	}
	ns, err := s.cluster(r)
	if err != nil {
		return err
	}
	from, err := s.recoverySource(r.Context(), body)
	if err != nil {
		return err
	}
	step, cells, err := s.cfg.Reconciler.Recover(r.Context(), ns, from.ID, body.AcceptOlder)
	if err != nil {
		return err
	}
	out := api.RecoverCluster{Status: api.ClusterRecovering, Host: from.ID, Store: ns.RecoveredFrom, Kept: []api.ClusterPosition{}, GivenUp: []api.ClusterGivenUp{}}
	switch {
	case step.Kind == plan.Await:
		return api.Errorf(api.StateConflict, "namespace %s is not recovered from %s: %s", ns.ID, from.Name, step.Reason)
	case step.Kind == plan.Refound:
		if err := s.proposeRecovery(r.Context(), q.meta, ns, step.Stores[0]); err != nil {
			return err
		}
		err = s.describeRecovery(r.Context(), &out, ns, step.Stores[0], cells)
		if err != nil {
			return err
		}
	case ns.Observed == ns.Generation:
		out.Status = api.ClusterRecovered
	}
	return serve.WriteJSON(w, http.StatusOK, out)
}

// recoverySource checks the request and returns the host that it names.
func (s *Server) recoverySource(ctx context.Context, body api.RecoverClusterRequest) (from fleet.Host, err error) {
	var f faults
	if body.From == "" {
		f.add("from", "is missing: name the host whose copy is kept")
	}
	if !body.AcceptLoss {
		f.add("accept_loss", "must be true: acknowledged writes that the copy lacks are lost")
	}
	if err := f.err(); err != nil {
		return from, err
	}
	return s.dataHost(ctx, body.From)
}

func (s *Server) proposeRecovery(ctx context.Context, meta *store.Meta, ns fleet.Namespace, kept string) error {
	incarnations, err := store.NewIncarnations(rand.Reader, ns.Spec.Shards)
	if err != nil {
		return err
	}
	_, err = propose[any](ctx, s, &store.RecoverNamespace{Meta: meta, Id: string(ns.ID), Generation: ns.Generation, Store: kept, Incarnations: incarnations})
	return err
}

// describeRecovery says what a recovery keeps and what it gives up.
func (s *Server) describeRecovery(ctx context.Context, out *api.RecoverCluster, ns fleet.Namespace, kept string, cells map[string]plan.CellReport) error {
	names, err := s.hostNames(ctx)
	if err != nil {
		return err
	}
	for _, m := range ns.Members {
		last := append([]api.ClusterPosition{}, positionsOf(ns, m, cells[m.Host])...)
		if m.Store == kept {
			out.Store, out.Kept = kept, last
			continue
		}
		out.GivenUp = append(out.GivenUp, api.ClusterGivenUp{Host: m.Host, HostName: names[m.Host], Store: m.Store, Last: last})
	}
	return nil
}

// positionsOf returns the ends of the copies of a member's shards; nil if its host has reported none, or that of another
// store or of other groups.
func positionsOf(ns fleet.Namespace, m fleet.GroupMember, cell plan.CellReport) (all []api.ClusterPosition) {
	if m.Lost || plan.Foreign(ns, cell) {
		return nil
	}
	for shard, g := range cell.Groups {
		all = append(all, api.ClusterPosition{Shard: shard, Index: g.Last, Term: g.Term})
	}
	return all
}
