package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// SwitchFleetRoot lets the announced root issue certificates. The leader proposes it without exceptions. An operator
// may name the members that do not trust the root and never will.

// Validate refuses an op that no state could accept.
func (o *SwitchFleetRoot) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("fingerprint", checkFingerprint(o.Fingerprint))
	if len(o.Without) > MaxHosts {
		p.add("without", fmt.Errorf("names %d members: at most %d", len(o.Without), MaxHosts))
	}
	for _, id := range o.Without {
		p.add("without", checkID(id))
	}
	return p.err()
}

// Apply lets the root sign. It refuses an unknown root with NOT_FOUND, and with STATE_CONFLICT a root before the end of
// its announcement, unless Now is set, and a root that a member with a certificate has not reported to trust, unless
// Without names that member. If the root signs already, Apply changes nothing.
func (o *SwitchFleetRoot) Apply(tx *Tx) (*SwitchFleetRootResult, error) {
	all, err := tx.roots()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r fleet.Root) bool { return r.Fingerprint == o.Fingerprint })
	switch {
	case i < 0:
		return nil, noRoot(o.Fingerprint)
	case all[i].SignsNs != 0 && i == len(all)-1:
		return &SwitchFleetRootResult{}, nil
	case all[i].SignsNs != 0:
		return nil, api.Errorf(api.StateConflict, "the root %s signed before: its successor cannot be undone", o.Fingerprint)
	case !o.Now && tx.clockNs() < all[i].NotBeforeNs:
		return nil, api.Errorf(api.StateConflict, "the root %s is announced until %s", o.Fingerprint, time.Unix(0, all[i].NotBeforeNs).UTC().Format(time.RFC3339))
	}
	members, err := list(tx, scanMemberRoots, selectMemberRoots+" ORDER BY h.name")
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(m fleet.MemberRoots) bool { return m.Trusts(o.Fingerprint) || slices.Contains(o.Without, m.ID) })
	if len(members) > 0 {
		return nil, errRootHeldBack("these members have not reported that they trust the root "+o.Fingerprint, members)
	}
	// The roots are read in the order of these times, and two entries may have one time.
	signs := max(tx.clockNs(), all[i-1].SignsNs+1)
	if err := tx.put("UPDATE fleet_root_times SET signs_ns = ? WHERE fingerprint = ?", signs, o.Fingerprint); err != nil {
		return nil, err
	}
	tx.wake = true
	return &SwitchFleetRootResult{}, tx.audit(o.Meta, "", o.Fingerprint)
}

func noRoot(fingerprint string) error {
	return api.Errorf(api.NotFound, "the fleet has no root %s", fingerprint)
}
