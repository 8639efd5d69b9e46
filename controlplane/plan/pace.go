package plan

import "slices"

// MaxChanges is the greatest number of namespaces on a host whose members change at a time, except for the changes that
// an operator makes. Each change copies a namespace over the network and reads or writes it on the hosts, which serve
// tenants meanwhile.
const MaxChanges = 8

// pace delays a change while a host that it concerns takes part in MaxChanges others.
func (v view) pace(step Step) Step {
	if step.Kind != Change {
		return step
	}
	for _, h := range v.hosts {
		if h.Changes >= MaxChanges && (slices.Contains(step.Stores, h.Store) || v.ns.On(h.ID)) {
			return await("its members change later, because those of %d other namespaces on %s change now", h.Changes, v.naming(h.ID))
		}
	}
	return step
}
