package store

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// RevokeCredential ends a credential at once.

// Number is RevokeCredential's number in the log.
func (*RevokeCredential) Number() entry.Number { return numRevokeCredential }

// Class is RevokeCredential's place among waiting proposals.
func (*RevokeCredential) Class() pipeline.Class { return table[numRevokeCredential].class }

// Validate refuses what no state could accept.
func (o *RevokeCredential) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	return p.err()
}

// Apply removes the credential. It refuses one that does not exist.
func (o *RevokeCredential) Apply(tx *Tx) (*RevokeCredentialResult, error) {
	c, err := tx.credential(o.Id)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, noCredential(o.Id)
	}
	if err := tx.dropCredential(o.Id); err != nil {
		return nil, err
	}
	if err := tx.touchOwner(c.Kind, c.Owner); err != nil {
		return nil, err
	}
	org, err := tx.orgOf(c.Kind, c.Owner)
	if err != nil {
		return nil, err
	}
	return &RevokeCredentialResult{}, tx.audit(o.Meta, org, o.Id)
}
