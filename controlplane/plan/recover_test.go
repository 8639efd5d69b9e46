package plan

import (
	"strings"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// A namespace is recovered from a whole copy that no other one is ahead of, and only without a majority.
func TestRecover(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(n *fleet.Namespace, hosts []Host, cells map[string]CellReport)
		from   string
		older  bool
		kind   Kind
		want   string
	}{
		"the furthest":        {from: "h1", kind: Refound},
		"a silent one is not": {from: "h2", want: "h2"},
		"no member":           {from: "h4", want: "has no copy of it"},
		"paused":              {func(n *fleet.Namespace, _ []Host, _ map[string]CellReport) { n.PausedNs = 1 }, "h1", false, "", "paused"},
		"a longer log elsewhere": {func(_ *fleet.Namespace, _ []Host, cells map[string]CellReport) {
			cells["h2"].Groups[0].Last = 11
		}, "h1", false, "", "is ahead of"},
		"a later term elsewhere, accepted": {func(_ *fleet.Namespace, _ []Host, cells map[string]CellReport) {
			cells["h2"].Groups[0].Term, cells["h2"].Groups[0].Last = 4, 1
		}, "h1", true, Refound, ""},
		"a majority": {func(_ *fleet.Namespace, hosts []Host, _ map[string]CellReport) { hosts[1].Alive = true }, "h1", false, "", "2 of its 3 members report"},
		"a leader": {func(_ *fleet.Namespace, _ []Host, cells map[string]CellReport) {
			cells["h1"].Groups[0].Role = wire.Leading
		}, "h1", false, "", "nothing to recover"},
		"no entries": {func(_ *fleet.Namespace, _ []Host, cells map[string]CellReport) {
			cells["h1"].Groups[0].Role = wire.Joining
		}, "h1", false, "", "whole copy"},
		"under way": {func(n *fleet.Namespace, _ []Host, _ map[string]CellReport) {
			n.RecoveredFrom, n.Members = "sh1", n.Members[:1]
		}, "h1", false, None, ""},
		"recovered, and has a leader": {func(n *fleet.Namespace, _ []Host, cells map[string]CellReport) {
			n.RecoveredFrom, cells["h1"].Groups[0].Role = "sh1", wire.Leading
		}, "h1", false, None, ""},
		"recovered, and has lost its quorum again": {func(n *fleet.Namespace, _ []Host, _ map[string]CellReport) { n.RecoveredFrom = "sh1" }, "h1", false, Refound, ""},
		"another history":                          {func(n *fleet.Namespace, _ []Host, _ map[string]CellReport) { n.Incarnations = other }, "h1", false, "", "whole copy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := minted(ns(fleet.Active, "h1", 1), true)
			n.Spec.Replicas = 3
			cells := map[string]CellReport{}
			var hosts []Host
			for _, h := range []string{"h1", "h2", "h3", "h4"} {
				hosts = append(hosts, host(h, 0, h == "h1"))
				cells[h] = CellReport{Generation: 1, State: wire.Opened, Incarnations: own, Groups: []wire.GroupReport{{Role: wire.Following, Last: 10, Term: 3}}}
			}
			for _, h := range []string{"h2", "h3"} {
				n.Members = append(n.Members, fleet.GroupMember{Store: "s" + h, Host: h, Raft: h + ":1"})
			}
			if c.change != nil {
				c.change(&n, hosts, cells)
			}
			step := Recover(n, hosts, cells, c.from, c.older)
			if c.want != "" {
				c.kind = Await
			}
			if step.Kind != c.kind || !strings.Contains(step.Reason, c.want) || c.kind == Refound && step.Stores[0] != "s"+c.from {
				t.Errorf("%+v, want %q %q", step, c.kind, c.want)
			}
		})
	}
}
