package plan

import (
	"slices"
	"strings"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// room returns a living host with cells and with a used part of a disk of 1000 bytes.
func room(id string, cells int, used int64) Host {
	h := host(id, cells, true)
	h.Cells = cells
	h.Capacity = wire.Capacity{MaxCells: 10, DiskTotal: 1000, DiskFree: 1000 - used, MaxDiskPercent: 80}
	return h
}

// A host is full from its bounds on, not before. A capacity that it has not reported bounds nothing.
func TestFull(t *testing.T) {
	t.Parallel()
	unmeasured := room("h1", 9, 0)
	unmeasured.Capacity.DiskTotal, unmeasured.Capacity.DiskFree = 0, 0
	unknown := room("h1", 99, 999)
	unknown.Capacity = wire.Capacity{}
	for _, c := range []struct {
		host Host
		full bool
	}{
		{room("h1", 9, 799), false}, {room("h1", 10, 0), true}, {room("h1", 0, 800), true},
		{unmeasured, false}, {unknown, false},
	} {
		if got := Full(c.host, 1); (got != "") != c.full {
			t.Errorf("%+v is full: %q", c.host, got)
		}
	}
	if Full(room("h1", 8, 0), 2) != "" || Full(room("h1", 8, 0), 3) == "" {
		t.Error("the shards of a namespace are not counted")
	}
}

// The reason names some of the full hosts and counts the others.
func TestReasonWhenAllHostsAreFull(t *testing.T) {
	t.Parallel()
	hosts := []Host{room("h1", 10, 0), room("h2", 0, 900), room("h3", 10, 0), room("h4", 10, 0), room("h5", 10, 0)}
	const want = "no host in region eu has room: nh1 (h1): it has 10 of at most 10 cells; " +
		"nh2 (h2): 90 % of its disk is in use, and from 80 % on it gets no new namespace; " +
		"nh3 (h3): it has 10 of at most 10 cells; and 2 more: start another host there, or make room"
	n := ns(fleet.Provisioning, "", 1)
	n.Spec.Shards = 1
	if step := Next(n, hosts, nil); step.Kind != Await || step.Reason != want {
		t.Errorf("%+v", step)
	}
}

// TestHostsBelowTheLevel checks that a host whose binary does not know the level of a namespace's groups gets no member,
// although it has the most room.
func TestHostsBelowTheLevel(t *testing.T) {
	t.Parallel()
	at := func(id string, namespaces int, level uint32) Host {
		h := host(id, namespaces, true)
		h.Raft, h.Capacity = id+":1", wire.Capacity{MaxCells: 10, Level: level}
		return h
	}
	n := minted(ns(fleet.Active, "h1", 1), true)
	n.Spec.Replicas = 3
	cell := opened(1, own)
	cell.Groups[0].Level = 2
	cells := map[string]CellReport{"h1": cell}
	hosts := []Host{at("h1", 1, 2), at("h2", 0, 1), at("h3", 5, 2)}
	const want = "nh2 (h2): its version knows feature level 1, and the namespace has 2: upgrade it"
	if step := Next(n, hosts, cells); step.Kind != Await || !strings.Contains(step.Reason, want) {
		t.Errorf("without enough hosts: %+v", step)
	}
	hosts = append(hosts, at("h4", 5, 3))
	if step := Next(n, hosts, cells); step.Kind != Change || !slices.Equal(step.Stores, []string{"sh1", "sh3", "sh4"}) {
		t.Errorf("with enough hosts: %+v", step)
	}
	cell.Groups[0].Level = 1
	if step := Next(n, hosts, cells); step.Kind != Change || !slices.Equal(step.Stores, []string{"sh1", "sh2", "sh3"}) {
		t.Errorf("before the rise: %+v", step)
	}
}
