package plan

import (
	"slices"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// A store that leaves without ever having got a copy is listed again if no other host is left. One that leaves because it
// cannot open the namespace is not.
func TestAStoreThatLeavesWithoutACopyIsListedAgain(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]Kind{wire.Waiting: Change, wire.Failed: Await} {
		n := minted(ns(fleet.Active, "h1", 2), true)
		n.Spec.Replicas = 3
		for _, h := range []string{"h2", "h3", "h4"} {
			n.Members = append(n.Members, fleet.GroupMember{Store: "s" + h, Host: h, Raft: h + ":1", Lost: h == "h3", Leaving: h == "h4"})
		}
		leads := opened(2, own)
		leads.Groups[0].Voters = []string{"sh1", "sh2", "sh3"}
		cells := map[string]CellReport{
			"h1": leads, "h2": following(opened(2, own)),
			"h4": {Generation: 2, State: state, Error: "elsewhere", Lasting: true},
		}
		hosts := []Host{host("h1", 1, true), host("h2", 1, true), host("h4", 1, true)}
		step := Next(n, hosts, cells)
		if step.Kind != want || want == Change && !slices.Equal(step.Stores, []string{"sh1", "sh2", "sh4"}) {
			t.Errorf("%s: %+v, want %q", state, step, want)
		}
	}
}
