package store

import (
	"bytes"
	"context"
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/fleet/certificate"
	"github.com/corvo/corvo/controlplane/fleet"
)

// AddFleetRoot adds the root that issues the fleet's certificates. Only the first root is accepted, so that
// control-plane processes that start at the same time share one.

// Validate refuses an op that no state could accept. The proposer parses the certificate, and Apply does not.
func (o *AddFleetRoot) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	root, err := certificate.OpenRoot(o.Seed, o.Certificate)
	p.add("certificate", err)
	if err == nil && root.Fingerprint() != o.Fingerprint {
		p.add("fingerprint", api.Errorf(api.ValidationError, "is not the SHA-256 of the certificate"))
	}
	return p.err()
}

// Apply adds the root. It refuses another one with CONFLICT. A repeat adds nothing.
func (o *AddFleetRoot) Apply(tx *Tx) (*AddFleetRootResult, error) {
	all, err := list(tx, scanFleetRoot, selectFleetRoot)
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
	err = tx.put("INSERT INTO fleet_roots (fingerprint, seed, certificate, created_ns) VALUES (?, ?, ?, ?)",
		o.Fingerprint, o.Seed, o.Certificate, tx.clockNs())
	if err != nil {
		return nil, err
	}
	return &AddFleetRootResult{}, tx.audit(o.Meta, "", o.Fingerprint)
}

const selectFleetRoot = "SELECT fingerprint, seed, certificate, created_ns FROM fleet_roots ORDER BY created_ns, fingerprint"

func scanFleetRoot(rows *sql.Rows) (r fleet.Root, err error) {
	err = rows.Scan(&r.Fingerprint, &r.Seed, &r.Certificate, &r.CreatedNs)
	return r, err
}

// FleetRoots lists the roots of the fleet's certificates.
func (s *Store) FleetRoots(ctx context.Context) ([]fleet.Root, error) {
	return read(ctx, s, func(r reader) ([]fleet.Root, error) { return list(r, scanFleetRoot, selectFleetRoot) })
}
