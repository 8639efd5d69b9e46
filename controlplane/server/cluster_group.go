package server

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
)

// toGroups returns the state of the group of each shard, as its leader has reported it. cells are the reports on the
// namespace by host, names the names of hosts by id. A group without a leader has only its shard.
func toGroups(n fleet.Namespace, cells map[string]plan.CellReport, names map[string]string) []api.CloudClusterGroup {
	groups := make([]api.CloudClusterGroup, n.Spec.Shards)
	for shard := range groups {
		g := &groups[shard]
		g.Shard, g.Voters, g.Learners = shard, []string{}, []string{}
		if r, m, led := plan.Leader(n.Members, cells, shard); led {
			g.Leader, g.LeaderHost, g.ListGeneration, g.Configuration = m.Store, names[m.Host], r.Generation, r.Configuration
			g.Voters, g.Learners = append(g.Voters, r.Voters...), append(g.Learners, r.Learners...)
		}
	}
	return groups
}
