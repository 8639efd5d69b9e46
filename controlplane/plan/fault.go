package plan

import (
	"fmt"
	"slices"
	"strings"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// Foreign reports whether a host has opened groups of other incarnations than the namespace's.
func Foreign(ns fleet.Namespace, cell CellReport) bool {
	return cell.State == wire.Opened && len(cell.Incarnations) > 0 && len(ns.Incarnations) > 0 && !slices.Equal(cell.Incarnations, ns.Incarnations)
}

// Fault returns, for people, why an active namespace cannot be served, or with fewer members than it has, or which of its
// members may be lost together. It returns "" if no reason is known or the namespace is not active.
func Fault(ns fleet.Namespace, hosts []Host, cells map[string]CellReport) string {
	if ns.Phase != fleet.Active {
		return ""
	}
	v := view{ns, hosts, cells}
	listed := v.ns.Listed()
	for _, m := range listed {
		if cell := cells[m.Host]; !m.Lost && Foreign(ns, cell) {
			return fmt.Sprintf("host %s has the groups %v open, and the namespace's are %v: stop the host, and start it with the directory of the namespace's", m.Host, cell.Incarnations, ns.Incarnations)
		}
	}
	if len(listed) == 1 {
		return v.onlyFault(listed[0])
	}
	for shard := range ns.Spec.Shards {
		if _, _, led := v.leader(shard); !led && v.lasting() {
			return fmt.Sprintf("shard %d has no leader: %s", shard, v.leaderless(shard))
		}
	}
	down := v.members(listed, v.down)
	if len(down) == 0 {
		return v.crowded(listed)
	}
	joins := fmt.Sprintf("%s waits to join shard %d", v.naming(down[0].Host), v.joining(down[0]))
	return fmt.Sprintf("%d of its %d members are up: %s", len(listed)-len(down), len(listed), v.first(down, joins))
}

// crowded returns, for people, which members are in one zone.
func (v view) crowded(listed []fleet.GroupMember) string {
	zone := func(m fleet.GroupMember) string {
		h, _ := v.host(m.Host)
		return h.Zone
	}
	for _, m := range listed {
		same := v.members(listed, func(other fleet.GroupMember) bool { return zone(m) != "" && zone(other) == zone(m) })
		if len(same) < 2 {
			continue
		}
		names := make([]string, len(same))
		for i, other := range same {
			names[i] = v.naming(other.Host)
		}
		return fmt.Sprintf("%d of its %d members are in zone %s (%s) and may be lost together: start hosts in other zones, and drain one of these", len(same), len(listed), zone(m), strings.Join(names, ", "))
	}
	return ""
}

// onlyFault returns the fault of the only member of a namespace.
func (v view) onlyFault(m fleet.GroupMember) string {
	h, known := v.host(m.Host)
	cell := v.cells[m.Host]
	switch {
	case m.Lost:
		return fmt.Sprintf("its data is on %s, and host %s has joined with another store since: start the host with the directory of that store, or delete the namespace", m.Store, m.Host)
	case h.Away || !known:
		return v.silence(m.Host)
	case failing(cell):
		return fmt.Sprintf("host %s does not serve it: %s", m.Host, cell.Error)
	}
	return ""
}

// lasting reports whether all members' hosts have sent the same reports for a while, so that no election is under way.
func (v view) lasting() bool {
	return !slices.ContainsFunc(v.ns.Members, func(m fleet.GroupMember) bool {
		h, known := v.host(m.Host)
		return known && !m.Lost && !h.Away && !v.cells[m.Host].Lasting
	})
}

// down reports whether a member has not served its groups for a while. A member that joins is not down before the end
// of the change that has added it.
func (v view) down(m fleet.GroupMember) bool {
	h, _ := v.host(m.Host)
	cell := v.cells[m.Host]
	switch {
	case v.gone(m) || h.Away:
		return true
	case failing(cell):
		return true
	case !cell.Lasting:
		return false
	case cell.State != wire.Opened:
		return true
	}
	return v.ns.Observed == v.ns.Generation && v.joining(m) >= 0
}

// joining returns the first shard that a member waits to join; -1 = none.
func (v view) joining(m fleet.GroupMember) int {
	return slices.IndexFunc(v.cells[m.Host].Groups, func(g wire.GroupReport) bool { return g.Role == wire.Joining })
}
