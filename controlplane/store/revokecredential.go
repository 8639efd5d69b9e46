package store

// RevokeCredential ends a credential at once. If judged_version is set, the op comes from a caller of the
// API, and Apply checks the versions and the last administrator as SetCredential does. If it is 0, the op
// comes from a component of the cloud, which may end any credential.

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

// Apply removes the credential. It refuses with NOT_FOUND one that does not exist. For a caller of the API it
// also refuses with PRECONDITION_FAILED a version other than the one the client read. It refuses with
// CONFLICT if the credential or the caller's own has changed since the caller's rights were checked, and for
// the last token that administers an organisation.
func (o *RevokeCredential) Apply(tx *Tx) (*RevokeCredentialResult, error) {
	c, err := tx.credential(o.Id)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, noCredential(o.Id)
	}
	if o.JudgedVersion != 0 {
		if err := tx.unchanged(c, o.IfVersion, o); err != nil {
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
