package plan

import (
	"cmp"
	"slices"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/controlplane/fleet"
)

// Recover returns the step that refounds the groups of a namespace from the copy on the host from, because an operator
// accepts that writes are lost. The step is a Refound, None if the namespace has been recovered from this host and has not
// lost its quorum again since, or an Await with the reason why it cannot be recovered so now. Recover refuses a namespace
// that can have leaders without it, and, unless acceptOlder is set, a copy that another reported copy is ahead of.
func Recover(ns fleet.Namespace, hosts []Host, cells map[string]CellReport, from string, acceptOlder bool) Step {
	v := view{ns, hosts, cells}
	at := slices.IndexFunc(ns.Members, func(m fleet.GroupMember) bool { return m.Host == from && !m.Lost })
	switch {
	case at >= 0 && ns.RecoveredFrom == ns.Members[at].Store && (len(ns.Members) == 1 || v.unled() == ""):
		return Step{}
	case ns.PausedNs != 0:
		return await("its reconciliation is paused, and the control plane must make the last step of a recovery: resume it first")
	case ns.Phase != fleet.Active || !ns.Founded:
		return await("it is %s: only an active namespace can be recovered", ns.Phase)
	case at < 0:
		return await("%s has no copy of it: name the host with the furthest of %s", v.naming(from), v.hostsOf(ns.Members))
	case v.unled() == "":
		return await("every shard has a leader: there is nothing to recover")
	}
	kept, listed := ns.Members[at], ns.Listed()
	if up := v.members(listed, v.complete); len(up) > len(listed)/2 && ns.Observed == ns.Generation {
		return await("%d of its %d members report, which is a majority and elects a leader: wait, or see why %s does not", len(up), len(listed), v.naming(up[0].Host))
	}
	if !v.complete(kept) {
		return await("%s does not report a whole copy of it: %s", v.naming(from), cmp.Or(v.trouble(kept), "a shard waits for its first entries"))
	}
	for _, m := range ns.Members {
		if !acceptOlder && v.ahead(m, kept) {
			return await("the copy on %s is ahead of the one on %s: recover from there, or accept the older copy", v.naming(m.Host), v.naming(from))
		}
	}
	return Step{Kind: Refound, Stores: []string{kept.Store}}
}

// complete reports whether a member's host reports a copy with entries of every shard.
func (v view) complete(m fleet.GroupMember) bool {
	groups := v.cells[m.Host].Groups
	return v.up(m) && !Foreign(v.ns, v.cells[m.Host]) && len(groups) == v.ns.Spec.Shards &&
		!slices.ContainsFunc(groups, func(g wire.GroupReport) bool { return g.Role == wire.Joining || g.Last == 0 })
}

// ahead reports whether the last report about a member has a later entry of some shard than that about another member.
// A report of a host that is silent since counts too, because its disk may be there.
func (v view) ahead(m, of fleet.GroupMember) bool {
	groups, others := v.cells[m.Host].Groups, v.cells[of.Host].Groups
	if m.Lost || Foreign(v.ns, v.cells[m.Host]) {
		return false
	}
	for shard := range min(len(groups), len(others)) {
		a, b := groups[shard], others[shard]
		if cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Last, b.Last)) > 0 {
			return true
		}
	}
	return false
}
