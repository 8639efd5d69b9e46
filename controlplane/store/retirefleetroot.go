package store

import (
	"slices"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// RetireFleetRoot removes a root with its key: the predecessor of the root that signs once it is in no use, or an
// announced root, whose rotation then ends without effect.

// Validate refuses an op that no state could accept.
func (o *RetireFleetRoot) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("fingerprint", checkFingerprint(o.Fingerprint))
	return p.err()
}

// Apply removes the root. It refuses an unknown root with NOT_FOUND, and with STATE_CONFLICT the root that signs. It
// refuses with STATE_CONFLICT the predecessor while a member has a certificate of it, until all its certificates have
// expired.
func (o *RetireFleetRoot) Apply(tx *Tx) (*RetireFleetRootResult, error) {
	all, err := tx.roots()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r fleet.Root) bool { return r.Fingerprint == o.Fingerprint })
	switch {
	case i < 0:
		return nil, noRoot(o.Fingerprint)
	case all[i].SignsNs != 0 && (i == len(all)-1 || all[i+1].SignsNs == 0):
		return nil, api.Errorf(api.StateConflict, "the root %s signs: rotate it first", o.Fingerprint)
	case all[i].SignsNs != 0 && tx.clockNs() < all[i+1].SignsNs+RootUse.Nanoseconds():
		members, err := list(tx, scanMemberRoots, selectMemberRoots+" ORDER BY h.name")
		if err != nil {
			return nil, err
		}
		members = slices.DeleteFunc(members, func(m fleet.MemberRoots) bool { return m.Issuer != o.Fingerprint })
		if len(members) > 0 {
			return nil, errRootHeldBack("these members have certificates of the root "+o.Fingerprint, members)
		}
	}
	if err := tx.put("DELETE FROM fleet_roots WHERE fingerprint = ?", o.Fingerprint); err != nil {
		return nil, err
	}
	if _, err := tx.exec("DELETE FROM fleet_root_times WHERE fingerprint = ?", o.Fingerprint); err != nil {
		return nil, err
	}
	tx.wake = true
	return &RetireFleetRootResult{}, tx.audit(o.Meta, "", o.Fingerprint)
}
