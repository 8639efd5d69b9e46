package store

import (
	"bytes"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// RecoverNamespace refounds the groups of a namespace that has lost its quorum: one member's copy becomes the beginning of
// another history, and all other members are given up. The server proposes it for an operator who accepts the loss.

// Validate refuses an op that no state could accept.
func (o *RecoverNamespace) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("generation", checkPositive(o.Generation))
	p.add("store", checkID(o.Store))
	checkIncarnations(&p, o.Incarnations, min(max(len(o.Incarnations), 1), MaxShards))
	return p.err()
}

// Apply makes the store the only member, gives the groups their new incarnations and raises the generation. The namespace
// keeps its number of replicas, so that the reconciler adds members afterwards. The documents name the earlier
// incarnations until it has them, so that no copy is deleted before. Apply refuses with NOT_FOUND an unknown namespace.
// It refuses with STATE_CONFLICT another generation, a namespace that is paused, is not active or has no recorded
// founding, a store that is no member or is lost, and incarnations that the namespace has already.
func (o *RecoverNamespace) Apply(tx *Tx) (*RecoverNamespaceResult, error) {
	n, err := tx.namespace(o.Id)
	if err != nil {
		return nil, err
	}
	if err := checkStep(n, o.Generation); err != nil {
		return nil, err
	}
	kept, is := n.Member(o.Store)
	earlier := make([][]byte, len(n.Incarnations))
	for i := range n.Incarnations {
		earlier[i] = n.Incarnations[i][:]
	}
	switch {
	case n.Phase != fleet.Active || !n.Founded || len(o.Incarnations) != len(earlier):
		return nil, misplaced(n, "recovered")
	case !is || kept.Lost:
		return nil, api.Errorf(api.StateConflict, "store %s has no copy of namespace %s that can be refounded: name a member whose store is not lost", o.Store, n.ID)
	case bytes.Equal(joined(o.Incarnations), joined(earlier)):
		return nil, api.Errorf(api.StateConflict, "namespace %s has the incarnations already: mint new ones", n.ID)
	}
	if err := tx.put("INSERT OR REPLACE INTO recoveries (namespace, store, earlier, at_ns) VALUES (?, ?, ?, ?)", o.Id, o.Store, joined(earlier), tx.clockNs()); err != nil {
		return nil, err
	}
	if err := tx.putFounding(o.Id, o.Incarnations, tx.clockNs()); err != nil {
		return nil, err
	}
	// The reported configurations are of the earlier history, whose log may be longer than the copy's. There are none if the
	// namespace was recovered before and has not settled since.
	if _, err := tx.exec("DELETE FROM configurations WHERE namespace = ?", o.Id); err != nil {
		return nil, err
	}
	kept.Leaving = false
	if err := tx.setMembers(&n, []fleet.GroupMember{kept}); err != nil {
		return nil, err
	}
	n.Generation++
	tx.touch(&n)
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	return &RecoverNamespaceResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
