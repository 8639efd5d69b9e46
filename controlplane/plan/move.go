package plan

import (
	"slices"
	"strings"

	"github.com/corvo/corvo/controlplane/fleet"
)

// Move returns the step that exchanges a namespace's member on the host from for the present store of the host to, because
// an operator asks for it. The step is a Change, None if the list has been changed so already, or an Await with the reason
// why the list cannot change so now.
//
// The rules of the planner's own changes apply, except that a move does not wait while many hosts of the region are silent:
// an operator can tell dead hosts from a fault in the network.
func Move(ns fleet.Namespace, hosts []Host, cells map[string]CellReport, from, to string) Step {
	v := view{ns, hosts, cells}
	listed := ns.Listed()
	on := func(host string) bool {
		return slices.ContainsFunc(listed, func(m fleet.GroupMember) bool { return m.Host == host })
	}
	switch {
	case !on(from) && on(to):
		return Step{}
	case ns.PausedNs != 0:
		return await("its reconciliation is paused, and the control plane must make the last step of a move: resume it first")
	case ns.Phase != fleet.Active || !ns.Founded:
		return await("it is %s: only an active namespace can move", ns.Phase)
	case ns.Observed < ns.Generation:
		return await("another change of it is not in effect yet: wait until its observed_generation is %d", ns.Generation)
	case !on(from):
		return await("%s has no member of it: move one from %s", v.naming(from), v.hostsOf(listed))
	case on(to):
		return await("%s has a member of it already: move it to another host", v.naming(to))
	}
	target, wait := v.target(to)
	if wait != "" {
		return await("%s", wait)
	}
	if wait := v.unled(); wait != "" {
		return await("%s", wait)
	}
	keep := v.members(listed, func(m fleet.GroupMember) bool { return m.Host != from })
	speakers := keep
	if len(keep) == 0 {
		speakers = listed // the only member copies its groups to the new one
	}
	for _, m := range speakers {
		if wait := v.needRaft(m); wait != "" && !v.gone(m) {
			return await("it gets no further member: %s", wait)
		}
	}
	step := Step{Kind: Change}
	for _, m := range keep {
		step.Stores = append(step.Stores, m.Store)
	}
	step.Stores = append(step.Stores, target.Store)
	return step
}

// target returns the host to which an operator moves a member, or why it can take none.
func (v view) target(id string) (target Host, wait string) {
	h, known := v.host(id)
	name := v.naming(id)
	switch {
	case !known || h.Store == "":
		wait = name + " has not joined with a store yet: start it"
	case h.Region != v.ns.Spec.Region:
		wait = name + " is in region " + h.Region + ", and the namespace is in " + v.ns.Spec.Region + ": name a host of its region"
	case !h.Alive:
		wait = name + " does not report: start it again"
	default:
		if reason := v.unfit(h, true); reason != "" {
			wait = name + " can take no member: " + reason + "; change that, or name another host"
		}
	}
	return h, wait
}

// hostsOf returns the hosts of members for people.
func (v view) hostsOf(members []fleet.GroupMember) string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = v.naming(m.Host)
	}
	return strings.Join(names, " or ")
}
