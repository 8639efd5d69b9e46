package host

import "github.com/corvo/corvo/tenancy"

// StartsHeld reports whether no job of a namespace may start now.
func (h *Host) StartsHeld(ns tenancy.NamespaceID) bool {
	return h.cfg.StartsHeld != nil && h.cfg.StartsHeld(ns)
}

// StartsResume wakes as many parked polls of a namespace as it has jobs for. The caller calls it after a hold of starts
// has ended, because the jobs that became ready during the hold have woken nobody.
func (h *Host) StartsResume(ns tenancy.NamespaceID) {
	t, err := h.tenant(ns)
	if err != nil {
		return // a namespace that is not open has no parked polls
	}
	for _, queue := range t.polls.queues() {
		for _, c := range t.cells {
			c.NotifyReady(queue)
		}
	}
}
