package plan

import (
	"cmp"
	"fmt"
	"slices"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// change returns the step to the next list of members. The first of these that applies makes the list:
//
//  1. Members that are lost, dead or barred are replaced, and the number of members becomes spec.replicas, in one list.
//  2. The first member on a draining host is replaced by one.
//
// A list keeps every member that it does not have to drop, so that a majority of the members that are up to date stays.
// A group of one replica may move, because its store serves on until the other one leads. While the present list is
// not in force, only the first rule applies, and adds no more members than the list has.
func (v view) change() Step {
	listed := v.ns.Listed()
	gone := v.members(listed, v.useless)
	staying := v.members(listed, func(m fleet.GroupMember) bool { return !v.useless(m) })
	draining := v.members(staying, v.draining)
	want := v.ns.Spec.Replicas
	if v.ns.Observed < v.ns.Generation {
		want, draining = min(want, len(listed)), nil
	}
	switch {
	case len(gone) == 0 && len(listed) == want && len(draining) == 0:
		return Step{}
	case len(v.ns.Members) == 1 && len(gone) == 1:
		return await("nothing replaces its only copy: %s", v.trouble(gone[0]))
	}
	if wait := v.unled(); wait != "" {
		return await("%s", wait)
	}
	if wait := v.silentRegion(); wait != "" && len(gone) > 0 {
		return await("%s is not replaced yet: %s", v.naming(gone[0].Host), wait)
	}
	switch {
	case len(staying) > want:
		return v.shrink(staying, want)
	case len(staying) < want:
		return v.refill(staying, gone, want)
	case len(gone) > 0:
		return v.add(staying, 0)
	}
	return v.drain(staying, draining[0])
}

// unled returns, for people, why the list of members cannot change: the first shard without a leader that reports.
func (v view) unled() string {
	for shard := range v.ns.Spec.Shards {
		if _, _, led := v.leader(shard); !led {
			return fmt.Sprintf("its list of members waits for shard %d: %s", shard, v.leaderless(shard))
		}
	}
	return ""
}

// useless reports whether the list needs another member in place of one.
func (v view) useless(m fleet.GroupMember) bool { return v.gone(m) || v.barred(m) }

// barred reports whether a member has no vote yet and its host has reported for a while that it cannot open the
// namespace, for instance because its disk is full. Such a member has no data that anybody needs, and the change would
// wait for it for ever.
func (v view) barred(m fleet.GroupMember) bool {
	cell := v.cells[m.Host]
	if v.silence(m.Host) != "" || !cell.Lasting || !failing(cell) {
		return false
	}
	for shard := range v.ns.Spec.Shards {
		if group, _, led := v.leader(shard); !led || slices.Contains(group.Voters, m.Store) {
			return false
		}
	}
	return true
}

// failing reports whether a host says that it cannot open the namespace.
func failing(cell CellReport) bool { return cell.State == wire.Failed || cell.State == wire.Waiting }

// refill adds the wanted number of members. If there are hosts only in place of the members that are gone, the further
// ones wait.
func (v view) refill(staying, gone []fleet.GroupMember, want int) Step {
	step := v.add(staying, want-len(staying))
	if were := len(staying) + len(gone); step.Kind == Await && len(gone) > 0 && were < want {
		step = v.add(staying, len(gone))
	}
	if step.Kind == Await && len(gone) > 0 {
		return await("%s is not replaced yet: %s", v.naming(gone[0].Host), step.Reason)
	}
	return step
}

// drain replaces a member on a draining host.
func (v view) drain(staying []fleet.GroupMember, leaves fleet.GroupMember) Step {
	if wait := v.silentRegion(); wait != "" {
		return await("it does not leave %s yet: %s", v.naming(leaves.Host), wait)
	}
	if wait := v.needRaft(leaves); len(staying) == 1 && wait != "" {
		return await("it does not leave %s: %s", v.naming(leaves.Host), wait)
	}
	step := v.add(slices.DeleteFunc(slices.Clone(staying), func(m fleet.GroupMember) bool { return m.Store == leaves.Store }), 1)
	if step.Kind == Await {
		return await("it does not leave %s, which drains: %s", v.naming(leaves.Host), step.Reason)
	}
	return step
}

// shrink drops members until there are as many as wanted: first those on draining hosts, then those that are not up,
// then those on the hosts with the most namespaces. Among equals it keeps the leaders' hosts.
func (v view) shrink(staying []fleet.GroupMember, want int) Step {
	order := slices.Clone(staying)
	slices.SortStableFunc(order, func(a, b fleet.GroupMember) int {
		hostA, _ := v.host(a.Host)
		hostB, _ := v.host(b.Host)
		return cmp.Or(
			compareBool(v.draining(a), v.draining(b)),
			compareBool(!v.up(a), !v.up(b)),
			cmp.Compare(v.leads(b.Store), v.leads(a.Store)),
			cmp.Compare(hostA.Namespaces, hostB.Namespaces),
		)
	})
	keep := order[:want]
	if up := len(v.members(keep, v.up)); up <= want/2 {
		return await("it keeps %d members until more are up: %s", len(staying), v.first(keep, ""))
	}
	var stores []string
	for _, m := range v.members(staying, func(m fleet.GroupMember) bool { return slices.Contains(keep, m) }) {
		stores = append(stores, m.Store)
	}
	return Step{Kind: Change, Stores: stores}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// leads returns the number of shards that a store leads.
func (v view) leads(store string) (shards int) {
	for shard := range v.ns.Spec.Shards {
		if _, leader, led := v.leader(shard); led && leader.Store == store {
			shards++
		}
	}
	return shards
}

// add returns the change to a list of the given members and a number of further ones.
func (v view) add(keep []fleet.GroupMember, number int) Step {
	stores := make([]string, 0, len(keep)+number)
	for _, m := range keep {
		if wait := v.needRaft(m); number > 0 && wait != "" {
			return await("it gets no further member: %s", wait)
		}
		stores = append(stores, m.Store)
	}
	more, wait := v.choose(keep, number, true)
	if wait != "" {
		return await("%s", wait)
	}
	return Step{Kind: Change, Stores: append(stores, more...)}
}

// needRaft returns, for people, why a member can have no groups with others.
func (v view) needRaft(m fleet.GroupMember) string {
	if h, _ := v.host(m.Host); h.Raft == "" {
		return fmt.Sprintf("%s has no address for the Raft members of other hosts: start it with a certificate of the fleet", v.naming(m.Host))
	}
	return ""
}

// silentRegion returns, for people, why nothing is replaced in the namespace's region: more than a third of its hosts
// are silent, so that the fault is more likely in the network or in the control plane than in the hosts.
func (v view) silentRegion() string {
	var silent []string
	all := 0
	for _, h := range v.hosts {
		if h.Region != v.ns.Spec.Region {
			continue
		}
		if all++; !h.Alive {
			silent = append(silent, h.ID)
		}
	}
	if 3*len(silent) <= all {
		return ""
	}
	slices.Sort(silent)
	names := make([]string, 0, maxNamed)
	for _, id := range silent[:min(len(silent), maxNamed)] {
		names = append(names, v.naming(id))
	}
	return fmt.Sprintf("%d of the %d hosts in region %s do not report (%s): start them, or remove those that are gone", len(silent), all, v.ns.Spec.Region, named(names, ", ", len(silent)))
}

func (v view) draining(m fleet.GroupMember) bool {
	h, _ := v.host(m.Host)
	return h.Draining
}

// members returns the members that fit.
func (v view) members(all []fleet.GroupMember, fits func(fleet.GroupMember) bool) (found []fleet.GroupMember) {
	for _, m := range all {
		if fits(m) {
			found = append(found, m)
		}
	}
	return found
}
