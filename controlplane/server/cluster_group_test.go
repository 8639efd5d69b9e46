package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
	"github.com/corvo/corvo/controlplane/plan"
)

// Each shard has the state that its leader reports. Of two that say so, the one with the later configuration leads.
func TestGroupsOfACluster(t *testing.T) {
	t.Parallel()
	ns := fleet.Namespace{Spec: fleet.Spec{Shards: 3}, Members: []fleet.GroupMember{{Store: "sa", Host: "ha"}, {Store: "sb", Host: "hb"}, {Store: "sc", Host: "hc", Leaving: true}}}
	leads := func(generation int64, configuration uint64, voters ...string) wire.GroupReport {
		return wire.GroupReport{Role: wire.Leading, Generation: generation, Configuration: configuration, Voters: voters, Learners: []string{"sb"}}
	}
	follows := wire.GroupReport{Role: wire.Following}
	cells := map[string]plan.CellReport{
		"ha": {Groups: []wire.GroupReport{follows, leads(2, 9, "sa", "sc"), follows}},
		"hb": {Groups: []wire.GroupReport{{Role: wire.Joining}}}, // of an earlier report: the other shards are not open yet
		"hc": {Groups: []wire.GroupReport{leads(1, 4, "sc"), leads(1, 5, "sc"), follows}},
	}
	want := []api.CloudClusterGroup{
		{Shard: 0, Leader: "sc", LeaderHost: "c", ListGeneration: 1, Configuration: 4, Voters: []string{"sc"}, Learners: []string{"sb"}},
		{Shard: 1, Leader: "sa", LeaderHost: "a", ListGeneration: 2, Configuration: 9, Voters: []string{"sa", "sc"}, Learners: []string{"sb"}},
		{Shard: 2, Voters: []string{}, Learners: []string{}},
	}
	if diff := cmp.Diff(want, toGroups(ns, cells, map[string]string{"ha": "a", "hb": "b", "hc": "c"})); diff != "" {
		t.Errorf("the groups (-want +got):\n%s", diff)
	}
}
