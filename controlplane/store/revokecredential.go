package store

// RevokeCredential ends a credential at once. A component of the cloud may end any credential. If a caller of
// the API asks, the op is refused under the same conditions as SetCredential.

// Validate refuses an op that no state could accept.
func (o *RevokeCredential) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("if_version", checkNotNegative(o.IfVersion))
	p.add("judged_version", checkNotNegative(o.JudgedVersion))
	p.add("caller_version", checkNotNegative(o.CallerVersion))
	return p.err()
}

// Apply removes the credential. It refuses one that does not exist. If a caller of the API asks, it also
// refuses a credential that has changed since, and the last token that administers an organisation.
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
