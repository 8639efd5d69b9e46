package store

import (
	"bytes"

	"github.com/corvo/corvo/api"
)

// AddFleetRoot adds the first root of the fleet's certificates. Only the first root is accepted, so that
// control-plane processes that start at the same time share one. RotateFleetRoot adds later ones.

// Validate refuses an op that no state could accept. The proposer parses the certificate, and Apply does not.
func (o *AddFleetRoot) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.addRoot(o.Fingerprint, o.Seed, o.Certificate)
	return p.err()
}

// Apply adds the root. It refuses another one with CONFLICT. A repeat adds nothing.
func (o *AddFleetRoot) Apply(tx *Tx) (*AddFleetRootResult, error) {
	all, err := tx.roots()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Fingerprint == o.Fingerprint && bytes.Equal(r.Seed, o.Seed) {
			return &AddFleetRootResult{}, nil
		}
	}
	if len(all) > 0 {
		return nil, api.Errorf(api.Conflict, "the fleet has the root %s already", all[0].Fingerprint)
	}
	if err := tx.insertRoot(o.Fingerprint, o.Seed, o.Certificate); err != nil {
		return nil, err
	}
	return &AddFleetRootResult{}, tx.audit(o.Meta, "", o.Fingerprint)
}
