package store

import (
	"crypto/sha256"
	"errors"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/controlplane/fleet"
)

// RotateCredential creates a credential with the kind, owner, name, roles and scope of an old one. The old
// one ends at old_expires_ns, or at its own expiry if that is earlier. The new one has the lifetime that was
// last set for the old one. If judged_version is set, the op comes from a caller of the API. If it is 0, the
// op comes from a component of the cloud, which may rotate any credential.

// Validate refuses an op that no state could accept.
func (o *RotateCredential) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("old_id", checkID(o.OldId))
	p.add("new_id", checkID(o.NewId))
	p.add("new_hash", checkSize(o.NewHash, sha256.Size))
	p.add("old_expires_ns", checkPositive(o.OldExpiresNs))
	p.add("judged_version", checkNotNegative(o.JudgedVersion))
	p.add("caller_version", checkNotNegative(o.CallerVersion))
	if o.OldId == o.NewId {
		p.add("new_id", errors.New("is the old one's"))
	}
	return p.err()
}

// Apply creates the new credential and ends the old one. It refuses with NOT_FOUND an old one that does not
// exist or has expired, with STATE_CONFLICT one that is disabled or whose owner is being deleted, and with
// VALIDATION_ERROR one with a role that was deleted. It refuses with CONFLICT an id that another credential
// has or had, and a credential above the limit. For a caller of the API it also refuses with CONFLICT an old
// one or a caller's own credential that has changed since the caller's rights were checked, because the new
// one gets the present rights of the old one. A repeat, recognised by the new id and hash, changes nothing.
func (o *RotateCredential) Apply(tx *Tx) (*RotateCredentialResult, error) {
	same, err := tx.sameCredential(o.NewId, o.NewHash, true)
	if err != nil {
		return nil, err
	}
	if same != nil {
		return &RotateCredentialResult{Id: o.NewId}, nil
	}
	old, err := tx.credential(o.OldId)
	if err != nil {
		return nil, err
	}
	if old == nil || old.Expired(instant(tx.clockNs())) {
		return nil, noCredential(o.OldId)
	}
	if !old.Enabled {
		return nil, api.Errorf(api.StateConflict, "credential %q is disabled: enable it before you rotate it", o.OldId)
	}
	if o.JudgedVersion != 0 {
		if err := tx.unchanged(old, 0, o); err != nil {
			return nil, err
		}
	}
	lifetime, err := number(tx, "SELECT lifetime_ns FROM credentials WHERE id = ?", o.OldId)
	if err != nil {
		return nil, err
	}
	c := &Credential{Id: o.NewId, Kind: string(old.Kind), Owner: old.Owner, Name: old.Name, Hash: o.NewHash}
	for _, role := range old.Roles {
		c.Roles = append(c.Roles, string(role))
	}
	for _, glob := range old.QueueScope {
		c.QueueScope = append(c.QueueScope, string(glob))
	}
	if lifetime > 0 {
		c.ExpiresNs = tx.clockNs() + lifetime
	}
	if err := tx.checkOwner(c); err != nil {
		return nil, err
	}
	if err := tx.endCredential(old, o.OldExpiresNs); err != nil {
		return nil, err
	}
	if err := tx.addCredential(c, lifetime); err != nil {
		return nil, err
	}
	org, err := tx.orgOf(old.Kind, old.Owner)
	if err != nil {
		return nil, err
	}
	return &RotateCredentialResult{Id: o.NewId}, tx.audit(o.Meta, org, o.OldId)
}

// endCredential sets the end of a credential and raises its version. It changes nothing if the credential
// expires earlier. If the new end is over already, endCredential removes the credential. The caller then adds
// the successor, which renews the documents.
func (tx *Tx) endCredential(c *fleet.Credential, atNs int64) error {
	switch end := endNs(c.ExpiresAt); {
	case atNs <= tx.clockNs():
		return tx.dropCredential(c.ID)
	case end != 0 && end <= atNs:
		return nil
	}
	if err := tx.put("UPDATE credentials SET expires_ns = ?, version = version + 1 WHERE id = ?", atNs, c.ID); err != nil {
		return err
	}
	return tx.showCredential(c.ID)
}

func noCredential(id string) error {
	return api.Errorf(api.NotFound, "there is no credential %q: it was revoked, has expired, or never existed", id)
}
