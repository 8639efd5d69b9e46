package store

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
)

// RotateFleetRoot adds a second root. Members learn of it and report that they trust it, and it signs nothing until
// SwitchFleetRoot.

// Validate refuses an op that no state could accept. The proposer parses the certificate, and Apply does not.
func (o *RotateFleetRoot) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.addRoot(o.Fingerprint, o.Seed, o.Certificate)
	if o.AnnounceNs < 0 || o.AnnounceNs > MaxAnnounce.Nanoseconds() {
		p.add("announce_ns", fmt.Errorf("is not a time of at most %v", MaxAnnounce))
	}
	return p.err()
}

// Apply adds the root. If another root is announced, Apply adds nothing and returns that root, so that a request that
// is repeated after a lost answer starts no second rotation. It refuses with STATE_CONFLICT a root before the first
// one, and while the fleet still trusts the predecessor of the root that signs.
func (o *RotateFleetRoot) Apply(tx *Tx) (*RotateFleetRootResult, error) {
	all, err := tx.roots()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, api.Errorf(api.StateConflict, "the fleet has no root yet")
	}
	if last := all[len(all)-1]; last.SignsNs == 0 {
		return &RotateFleetRootResult{Fingerprint: last.Fingerprint}, nil
	}
	if len(all) >= certificate.MaxRoots {
		return nil, api.Errorf(api.StateConflict, "the fleet still trusts the root %s: wait until it is retired", all[0].Fingerprint)
	}
	if all[0].Fingerprint == o.Fingerprint {
		return nil, api.Errorf(api.Conflict, "the fleet has the root %s already", o.Fingerprint)
	}
	if err := tx.insertRoot(o.Fingerprint, o.Seed, o.Certificate); err != nil {
		return nil, err
	}
	err = tx.put("INSERT INTO fleet_root_times (fingerprint, not_before_ns, signs_ns) VALUES (?, ?, 0)", o.Fingerprint, tx.clockNs()+o.AnnounceNs)
	if err != nil {
		return nil, err
	}
	tx.wake = true
	return &RotateFleetRootResult{Fingerprint: o.Fingerprint}, tx.audit(o.Meta, "", o.Fingerprint)
}
