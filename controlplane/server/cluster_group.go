package server

import (
	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
)

// toGroups returns the state of the group of each shard, as its leader has reported it. cells are the reports on the
// namespace by host, names the names of hosts by id. If several members say that they lead, the latest configuration
// counts, because the others have not heard of their successor yet. A group without a leader has only its shard.
func toGroups(n fleet.Namespace, cells map[string]plan.CellReport, names map[string]string) []api.CloudClusterGroup {
	groups := make([]api.CloudClusterGroup, n.Spec.Shards)
	for shard := range groups {
		g := &groups[shard]
		g.Shard, g.Voters, g.Learners = shard, []string{}, []string{}
		for _, m := range n.Members {
			reported := cells[m.Host].Groups
			if shard >= len(reported) || reported[shard].Role != wire.Leading || g.Leader != "" && reported[shard].Configuration <= g.Configuration {
				continue
			}
			r := reported[shard]
			g.Leader, g.LeaderHost, g.ListGeneration, g.Configuration = m.Store, names[m.Host], r.Generation, r.Configuration
			g.Voters, g.Learners = append([]string{}, r.Voters...), append([]string{}, r.Learners...)
		}
	}
	return groups
}
