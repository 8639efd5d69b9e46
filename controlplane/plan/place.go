package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// maxNamed is the greatest number of hosts that a reason names.
const maxNamed = 3

// place returns a step of the given kind, which chooses all members of the namespace.
func (v view) place(kind Kind) Step {
	replicas := v.ns.Spec.Replicas
	stores, wait := v.choose(nil, replicas, replicas > 1)
	if wait != "" {
		return await("%s", wait)
	}
	return Step{Kind: kind, Stores: stores}
}

// choose returns stores for a number of further members beside those that the namespace keeps, or why there are not
// enough. A namespace has one member on a host. Of the hosts with room, choose takes one that has a copy already, else
// one in a zone with the fewest members, else one with the fewest namespaces, else the first by id. A copy from before
// the founding was recorded is of groups that nobody joins, so that its host comes last.
func (v view) choose(keep []fleet.GroupMember, number int, raft bool) (stores []string, wait string) {
	zones := map[string]int{}
	for _, m := range keep {
		h, _ := v.host(m.Host)
		zones[h.Zone]++
	}
	candidates, refused := v.candidates(keep, raft)
	for len(stores) < number {
		if len(candidates) == 0 {
			return nil, v.fewHosts(len(stores), number, refused)
		}
		best := slices.MinFunc(candidates, func(a, b Host) int {
			return cmp.Or(
				v.compareCopies(a, b),
				cmp.Compare(zones[a.Zone], zones[b.Zone]),
				cmp.Compare(a.Namespaces, b.Namespaces),
				strings.Compare(a.ID, b.ID),
			)
		})
		zones[best.Zone]++
		stores = append(stores, best.Store)
		candidates = slices.DeleteFunc(candidates, func(h Host) bool { return h.ID == best.ID })
	}
	return stores, ""
}

// candidates returns the living hosts of the namespace's region that can take a member, and why the others cannot.
func (v view) candidates(keep []fleet.GroupMember, raft bool) (fit []Host, refused []string) {
	for _, h := range v.hosts {
		on := func(m fleet.GroupMember) bool { return m.Host == h.ID }
		if !h.Alive || h.Store == "" || h.Region != v.ns.Spec.Region || slices.ContainsFunc(keep, on) {
			continue
		}
		if h.Draining && v.ns.On(h.ID) {
			continue
		}
		if reason := v.unfit(h, raft); reason != "" {
			refused = append(refused, fmt.Sprintf("%s (%s): %s", h.Name, h.ID, reason))
		} else {
			fit = append(fit, h)
		}
	}
	return fit, refused
}

// unfit returns, for people, why a living host of the namespace's region can take no member; "" = it can.
func (v view) unfit(h Host, raft bool) string {
	cells := v.ns.Spec.Shards
	if v.ns.On(h.ID) {
		cells = 0 // they count already
	}
	// A store that leaves and has no copy waits. It would open the namespace if it were listed again.
	m, member := v.ns.Member(h.Store)
	waits := m.Leaving && v.cells[h.ID].State == wire.Waiting
	switch {
	case h.Draining:
		return "it drains"
	case member && v.ns.Founded && failing(v.cells[h.ID]) && !waits:
		return "it cannot open the namespace: " + v.cells[h.ID].Error
	case raft && h.Raft == "":
		return "it has no address for the Raft members of other hosts"
	case h.Capacity.Level < v.level():
		return fmt.Sprintf("its version knows feature level %d, and the namespace has %d: upgrade it", h.Capacity.Level, v.level())
	}
	return Full(h, cells)
}

// level returns the highest feature level that a member of the namespace's groups has reported; 0 = none has reported.
func (v view) level() (level uint32) {
	for _, cell := range v.cells {
		for _, g := range cell.Groups {
			level = max(level, g.Level)
		}
	}
	return level
}

// compareCopies orders a host with a copy of the namespace before one without. If the founding is not recorded, it orders
// them the other way round.
func (v view) compareCopies(a, b Host) int {
	has := func(h Host) bool {
		if !v.ns.Founded {
			return !v.ns.On(h.ID)
		}
		_, is := v.ns.Member(h.Store)
		return is
	}
	return compareBool(!has(a), !has(b))
}

// fewHosts returns the reason to wait if fewer hosts can take a member than are needed. refused has the reason of each
// living host that cannot.
func (v view) fewHosts(found, need int, refused []string) string {
	hosts, has, reports, start := "no host", "has", "reports", "start one there"
	switch {
	case need > 1:
		hosts, has, reports, start = fmt.Sprintf("only %d of %d needed hosts", found, need), "have", "report", "start more there"
	case len(v.ns.Members) > 0:
		hosts = "no further host"
	}
	if len(refused) == 0 {
		return fmt.Sprintf("%s in region %s %s: %s", hosts, v.ns.Spec.Region, reports, start)
	}
	return fmt.Sprintf("%s in region %s %s room: %s: start another host there, or make room", hosts, v.ns.Spec.Region, has,
		named(refused[:min(len(refused), maxNamed)], "; ", len(refused)))
}

// named joins the first names of a number of things.
func named(names []string, separator string, number int) string {
	if more := number - len(names); more > 0 {
		names = append(slices.Clone(names), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, separator)
}
