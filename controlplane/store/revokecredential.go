package store

import (
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// RevokeCredential ends a credential at once. A part of the cloud may end any; an op that
// a caller asks for is refused like a change, see SetCredential.

// Number is RevokeCredential's number in the log.
func (*RevokeCredential) Number() entry.Number { return numRevokeCredential }

// Class is RevokeCredential's place among waiting proposals.
func (*RevokeCredential) Class() pipeline.Class { return table[numRevokeCredential].class }

// Validate refuses what no state could accept.
func (o *RevokeCredential) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("if_version", checkNotNegative(o.IfVersion))
	p.add("judged_version", checkNotNegative(o.JudgedVersion))
	p.add("caller_version", checkNotNegative(o.CallerVersion))
	return p.err()
}

// Apply removes the credential. It refuses one that does not exist and, if a caller asks,
// one that has changed since, and the last token that administers an organisation.
func (o *RevokeCredential) Apply(tx *Tx) (*RevokeCredentialResult, error) {
	c, err := tx.credential(o.Id)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, noCredential(o.Id)
	}
	if o.JudgedVersion != 0 {
		if err := tx.unchanged(c, o); err != nil {
			return nil, err
		}
		if err := tx.staysAdministered(c); err != nil {
			return nil, err
		}
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
