package plan

import (
	"strings"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// An active namespace of one replica shows the loss of its store before anything that the host reports. A namespace with
// an operation has the reason of its plan instead.
func TestFaultOfOneReplica(t *testing.T) {
	t.Parallel()
	active := ns(fleet.Active, "h1", 1)
	for _, c := range []struct {
		ns    fleet.Namespace
		hosts []Host
		cell  CellReport
		want  []string
	}{
		{active, alive, CellReport{}, nil},
		{active, alive, CellReport{State: wire.Opened}, nil},
		{active, alive, CellReport{State: wire.Failed, Error: "no room"}, []string{"h1", "no room"}},
		{active, alive, CellReport{State: wire.Waiting, Error: "elsewhere"}, []string{"h1", "elsewhere"}},
		{active, dead, CellReport{State: wire.Opened}, []string{"h1", "does not report"}},
		{active, nil, CellReport{State: wire.Opened}, []string{"h1", "does not report"}},
		{lost(ns(fleet.Active, "h1", 1)), alive, CellReport{State: wire.Opened}, []string{"h1", "sh1"}},
		{minted(active, true), alive, opened(1, own), nil},
		{minted(active, true), alive, opened(1, nil), nil},
		{minted(active, true), alive, opened(1, other), []string{"h1", own[0].String(), other[0].String()}},
		{active, alive, opened(1, own), nil},
		{ns(fleet.Provisioning, "h1", 1), alive, CellReport{State: wire.Failed, Error: "no room"}, nil},
	} {
		got := Fault(c.ns, c.hosts, map[string]CellReport{"h1": c.cell})
		if (got == "") != (c.want == nil) {
			t.Errorf("%+v, %+v: %q", c.ns, c.cell, got)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%q does not say %q", got, part)
			}
		}
	}
}

// A namespace of three replicas has a fault while a shard has no leader for a while, and while members are down.
func TestFaultOfThreeReplicas(t *testing.T) {
	t.Parallel()
	following := func(lasting bool) CellReport {
		return CellReport{Generation: 1, State: wire.Opened, Incarnations: own, Groups: []wire.GroupReport{{Role: wire.Following}}, Lasting: lasting}
	}
	leading := opened(1, own)
	leading.Lasting = true
	joining := following(true)
	joining.Groups = []wire.GroupReport{{Role: wire.Joining}}
	foreign := following(true)
	foreign.Incarnations = other
	failed := CellReport{Generation: 1, State: wire.Failed, Error: "no room"}
	opening := CellReport{Generation: 1, State: wire.Opening, Lasting: true}
	away, silent := host("h3", 1, false), host("h3", 1, false)
	silent.Away = false
	for _, c := range []struct {
		name   string
		third  Host
		cells  [3]CellReport
		moving bool
		want   string
	}{
		{"all up", host("h3", 1, true), [3]CellReport{leading, following(true), following(true)}, false, ""},
		{"an election", host("h3", 1, true), [3]CellReport{following(true), following(true), following(false)}, false, ""},
		{"no leader for a while", host("h3", 1, true), [3]CellReport{following(true), following(true), following(true)}, false, "shard 0 has no leader: no host reports that it leads shard 0"},
		{"no leader, and a host away", away, [3]CellReport{following(true), following(true), {}}, false, "shard 0 has no leader: host nh3 (h3) does not report: start it again"},
		{"a host away", away, [3]CellReport{leading, following(true), following(true)}, false, "2 of its 3 members are up: host nh3 (h3) does not report: start it again"},
		{"a host that nobody has waited for yet", silent, [3]CellReport{leading, following(true), {}}, false, ""},
		{"a member that cannot open", host("h3", 1, true), [3]CellReport{leading, following(true), failed}, false, "2 of its 3 members are up: host nh3 (h3) cannot open it and tries again: no room"},
		{"a member that opens for long", host("h3", 1, true), [3]CellReport{leading, following(true), opening}, false, "2 of its 3 members are up: host nh3 (h3) is opening it"},
		{"a member that joins for long", host("h3", 1, true), [3]CellReport{leading, following(true), joining}, false, "2 of its 3 members are up: host nh3 (h3) waits to join shard 0"},
		{"a member that joins in a change", host("h3", 1, true), [3]CellReport{leading, following(true), joining}, true, ""},
		{"two members in a zone", inZone("h1", host("h3", 1, true)), [3]CellReport{leading, following(true), following(true)}, false, "2 of its 3 members are in zone h1 (host nh1 (h1), host nh3 (h3)) and may be lost together: start hosts in other zones, and drain one of these"},
		{"a member with other groups", host("h3", 1, true), [3]CellReport{leading, following(true), foreign}, false, "host h3 has the groups [02000000000000000000000000000000] open, and the namespace's are [01000000000000000000000000000000]: stop the host, and start it with the directory of the namespace's"},
	} {
		n := minted(ns(fleet.Active, "h1", 1), true)
		n.Members = append(n.Members, fleet.GroupMember{Store: "sh2", Host: "h2"}, fleet.GroupMember{Store: "sh3", Host: "h3"})
		if c.moving {
			n.Observed = 0
		}
		hosts := []Host{host("h1", 1, true), host("h2", 1, true), c.third}
		if got := Fault(n, hosts, map[string]CellReport{"h1": c.cells[0], "h2": c.cells[1], "h3": c.cells[2]}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func inZone(zone string, h Host) Host {
	h.Zone = zone
	return h
}
