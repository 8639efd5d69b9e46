package store

// UndrainHost ends the drain of a host. Namespaces that have left it do not come back by themselves.

// Validate refuses an op that no state could accept.
func (o *UndrainHost) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	p.add("expect_version", checkNotNegative(o.ExpectVersion))
	return p.err()
}

// Apply removes the drain. It refuses with NOT_FOUND an unknown host, and with PRECONDITION_FAILED a version other than
// the expected one (0 = any). If the host does not drain, Apply writes nothing.
func (o *UndrainHost) Apply(tx *Tx) (*UndrainHostResult, error) {
	h, err := tx.hostAt(o.Id, o.ExpectVersion)
	if err != nil {
		return nil, err
	}
	if !h.Draining {
		return &UndrainHostResult{}, nil
	}
	if err := tx.put("DELETE FROM drains WHERE host = ?", h.ID); err != nil {
		return nil, err
	}
	return &UndrainHostResult{}, tx.changedHost(o.Meta, h)
}
