package store

// JoinHost records the address and the version of a host or gateway.

// Validate refuses an op that no state could accept.
func (o *JoinHost) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("address", checkText(o.Address, MaxAddress))
	p.add("version", checkText(o.Version, MaxVersion))
	return p.err()
}

// Apply records both. It refuses an unknown host. If the address has changed, it renews the documents of the
// namespaces on the host. If nothing has changed, it writes nothing.
func (o *JoinHost) Apply(tx *Tx) (*JoinHostResult, error) {
	h, err := tx.host(o.Id)
	if err != nil {
		return nil, err
	}
	if h.Address == o.Address && h.Binary == o.Version {
		return &JoinHostResult{}, nil
	}
	if err := tx.put("UPDATE hosts SET address = ?, binary = ?, version = version + 1 WHERE id = ?", o.Address, o.Version, o.Id); err != nil {
		return nil, err
	}
	if h.Address != o.Address {
		if err := tx.touchAll("SELECT id FROM namespaces WHERE host = ? AND phase <> 'deleted' ORDER BY id", o.Id); err != nil {
			return nil, err
		}
	}
	tx.wake = true
	return &JoinHostResult{}, tx.audit(o.Meta, "", o.Id)
}
