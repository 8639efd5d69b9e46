package plan

import (
	"fmt"
	"slices"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// settle ends a create or a change once every group has exactly the list of members. A listed member that is lost, dead
// or barred may keep a group from that for ever, so it is replaced before the end. Nothing else changes the list until then,
// because one change after the other is easy to follow and to stop.
func (v view) settle() Step {
	configurations, wait := v.inForce()
	if wait == "" {
		return Step{Kind: Settle, Configurations: configurations}
	}
	if slices.ContainsFunc(v.ns.Listed(), v.useless) {
		return v.change()
	}
	return await("%s", wait)
}

// inForce returns, by shard, the index of the configuration with exactly the list of members. If a group is not there
// yet, it returns the first reason: by shard, and by member in the order of the list.
func (v view) inForce() (configurations []uint64, wait string) {
	listed := v.ns.Listed()
	for _, m := range listed {
		if v.up(m) && Foreign(v.ns, v.cells[m.Host]) {
			return nil, v.trouble(m)
		}
	}
	for shard := range v.ns.Spec.Shards {
		group, leader, led := v.leader(shard)
		switch {
		case !led:
			return nil, v.leaderless(shard)
		case group.Generation < v.ns.Generation:
			return nil, v.first(listed, fmt.Sprintf("shard %d, which %s leads, has the list of members of generation %d, not of %d", shard, v.naming(leader.Host), group.Generation, v.ns.Generation))
		case group.Generation > v.ns.Generation:
			return nil, fmt.Sprintf("shard %d, which %s leads, has the list of members of generation %d, and the control plane knows only %d: has its data been put back?", shard, v.naming(leader.Host), group.Generation, v.ns.Generation)
		}
		if wait := v.differs(shard, group, listed); wait != "" {
			return nil, wait
		}
		configurations = append(configurations, group.Configuration)
	}
	return configurations, ""
}

// differs returns, for people, how the group of a shard differs from the list of members.
func (v view) differs(shard int, group wire.GroupReport, listed []fleet.GroupMember) string {
	for _, m := range listed {
		if slices.Contains(group.Voters, m.Store) {
			continue
		}
		if trouble := v.trouble(m); trouble != "" {
			return trouble
		}
		return fmt.Sprintf("%s copies shard %d and has no vote yet", v.naming(m.Host), shard)
	}
	for _, store := range slices.Concat(group.Voters, group.Learners) {
		if !slices.ContainsFunc(listed, func(m fleet.GroupMember) bool { return m.Store == store }) {
			return fmt.Sprintf("shard %d still has the member %s, which leaves it", shard, v.namingStore(store))
		}
	}
	if len(group.Learners) > 0 {
		return fmt.Sprintf("shard %d still has the learner %s", shard, v.namingStore(group.Learners[0]))
	}
	return ""
}

// Leader returns the member whose host reports that it leads the group of a shard, and that report of the group. cells are
// the reports on the namespace by host. If several report so, the one with the newest configuration counts, because the
// others have not heard of their successor yet.
func Leader(members []fleet.GroupMember, cells map[string]CellReport, shard int) (group wire.GroupReport, leader fleet.GroupMember, led bool) {
	for _, m := range members {
		groups := cells[m.Host].Groups
		if shard >= len(groups) || groups[shard].Role != wire.Leading {
			continue
		}
		if !led || groups[shard].Configuration > group.Configuration {
			group, leader, led = groups[shard], m, true
		}
	}
	return group, leader, led
}

// leader returns the Leader among the members whose hosts are up and have the namespace's own groups.
func (v view) leader(shard int) (group wire.GroupReport, leader fleet.GroupMember, led bool) {
	up := slices.DeleteFunc(slices.Clone(v.ns.Members), func(m fleet.GroupMember) bool { return !v.up(m) || Foreign(v.ns, v.cells[m.Host]) })
	return Leader(up, v.cells, shard)
}

// leaderless returns, for people, why no member leads a shard.
func (v view) leaderless(shard int) string {
	return v.first(v.ns.Members, fmt.Sprintf("no host reports that it leads shard %d", shard))
}

// first returns the trouble of the first member that has some, or else the given text.
func (v view) first(members []fleet.GroupMember, or string) string {
	for _, m := range members {
		if trouble := v.trouble(m); trouble != "" {
			return trouble
		}
	}
	return or
}

// trouble returns, for people, why a member does not serve the namespace with the present list; "" = it does.
func (v view) trouble(m fleet.GroupMember) string {
	name, cell := v.naming(m.Host), v.cells[m.Host]
	if m.Lost {
		return fmt.Sprintf("%s has joined with another store than %s: start it with the directory of that store", name, m.Store)
	}
	if silence := v.silence(m.Host); silence != "" {
		return silence
	}
	switch {
	case cell.State == wire.Failed:
		return fmt.Sprintf("%s cannot open it and tries again: %s", name, cell.Error)
	case cell.State == wire.Waiting:
		return fmt.Sprintf("%s does not open it: %s", name, cell.Error)
	case cell.State != wire.Opened:
		return fmt.Sprintf("%s is opening it", name)
	case Foreign(v.ns, cell):
		return fmt.Sprintf("%s has %v open, and the namespace's groups are %v: delete the namespace and create it again", name, cell.Incarnations, v.ns.Incarnations)
	}
	return ""
}

// silence returns, for people, why a host does not act on the present generation; "" = it does.
func (v view) silence(host string) string {
	h, _ := v.host(host)
	name, cell := v.naming(host), v.cells[host]
	switch {
	case !h.Alive:
		return fmt.Sprintf("%s does not report: start it again", name)
	case cell.State == "":
		return fmt.Sprintf("%s has not heard of it yet", name)
	case cell.Generation < v.ns.Generation:
		return fmt.Sprintf("%s still acts on generation %d of it, not on %d", name, cell.Generation, v.ns.Generation)
	case cell.Generation > v.ns.Generation:
		return fmt.Sprintf("%s acts on generation %d of it, and the control plane knows only %d: has its data been put back?", name, cell.Generation, v.ns.Generation)
	}
	return ""
}

// namingStore returns the name of the host of a member's store for people.
func (v view) namingStore(store string) string {
	for _, m := range v.ns.Members {
		if m.Store == store {
			return "on " + v.naming(m.Host)
		}
	}
	return store
}
