package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// AddSigningKey adds the key that signs from now on. The earlier keys stay trusted until trusted_until_ns, or
// until their own end if that is earlier. A later AddSigningKey deletes the keys that are no longer trusted.
// If trusted_until_ns is over already, this op deletes all earlier keys.

// Validate refuses an op that no state could accept.
func (o *AddSigningKey) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("seed", checkSize(o.Seed, ed25519.SeedSize))
	p.add("trusted_until_ns", checkNotNegative(o.TrustedUntilNs))
	return p.err()
}

// Apply adds the key. It refuses with CONFLICT an id that another key has, and a key above the limit. A
// repeat adds nothing.
func (o *AddSigningKey) Apply(tx *Tx) (*AddSigningKeyResult, error) {
	if _, err := tx.exec("DELETE FROM signing_keys WHERE trusted_until_ns > 0 AND trusted_until_ns <= ?", tx.clockNs()); err != nil {
		return nil, err
	}
	all, err := list(tx, scanSigningKey, selectSigningKey+" ORDER BY number")
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if k.ID != o.Id {
			continue
		}
		if !bytes.Equal(k.Seed, o.Seed) {
			return nil, api.Errorf(api.Conflict, "there is a signing key %q already", o.Id)
		}
		return &AddSigningKeyResult{}, nil
	}
	if int64(len(all)) >= tx.limits.signingKeys {
		return nil, api.Errorf(api.Conflict, "the control plane has %d signing keys, the maximum: wait until an old one is no longer trusted", tx.limits.signingKeys)
	}
	// The key that signed until now ends at trusted_until_ns, and so does any key that would be trusted for
	// longer.
	if o.TrustedUntilNs <= tx.clockNs() {
		_, err = tx.exec("DELETE FROM signing_keys")
	} else {
		_, err = tx.exec("UPDATE signing_keys SET trusted_until_ns = ?1 WHERE trusted_until_ns = 0 OR trusted_until_ns > ?1", o.TrustedUntilNs)
	}
	if err != nil {
		return nil, err
	}
	err = tx.put("INSERT INTO signing_keys (number, id, seed, created_ns, trusted_until_ns) VALUES ((SELECT COALESCE(MAX(number), 0) + 1 FROM signing_keys), ?, ?, ?, 0)",
		o.Id, o.Seed, tx.clockNs())
	if err != nil {
		return nil, err
	}
	tx.wake = true
	return &AddSigningKeyResult{}, tx.audit(o.Meta, "", o.Id)
}

const selectSigningKey = "SELECT id, seed, created_ns, trusted_until_ns FROM signing_keys"

func scanSigningKey(rows *sql.Rows) (k fleet.SigningKey, err error) {
	err = rows.Scan(&k.ID, &k.Seed, &k.CreatedNs, &k.TrustedUntilNs)
	return k, err
}

// SigningKeys lists the trusted keys. The newest is the last.
func (s *Store) SigningKeys(ctx context.Context) ([]fleet.SigningKey, error) {
	clockNs := s.ClockNs()
	return read(ctx, s, func(r reader) ([]fleet.SigningKey, error) {
		return list(r, scanSigningKey, selectSigningKey+" WHERE trusted_until_ns = 0 OR trusted_until_ns > ? ORDER BY number", clockNs)
	})
}
