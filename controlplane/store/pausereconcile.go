package store

// PauseReconcile stops the steps of the reconciler for a namespace, until ResumeReconcile. The namespace's
// host goes on following its document.

// Validate refuses an op that no state could accept.
func (o *PauseReconcile) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	return p.err()
}

// Apply records the pause with the time of the entry and the op's principal. It refuses with NOT_FOUND a
// namespace that is unknown or deleted. If the namespace is paused already, it writes nothing.
func (o *PauseReconcile) Apply(tx *Tx) (*PauseReconcileResult, error) {
	n, err := tx.living(o.Id)
	if err != nil {
		return nil, err
	}
	if n.PausedNs != 0 {
		return &PauseReconcileResult{}, nil
	}
	if err := tx.put("INSERT INTO pauses (namespace, principal, at_ns) VALUES (?, ?, ?)", o.Id, o.GetMeta().GetPrincipal(), tx.clockNs()); err != nil {
		return nil, err
	}
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	tx.wake = true // so that its operation says at once why it waits
	return &PauseReconcileResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
