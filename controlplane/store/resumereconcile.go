package store

// ResumeReconcile ends the pause of a namespace's reconciliation.

// Validate refuses an op that no state could accept.
func (o *ResumeReconcile) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkID(o.Id))
	return p.err()
}

// Apply removes the pause. It refuses with NOT_FOUND a namespace that is unknown or deleted. If the namespace
// is not paused, it writes nothing.
func (o *ResumeReconcile) Apply(tx *Tx) (*ResumeReconcileResult, error) {
	n, err := tx.living(o.Id)
	if err != nil {
		return nil, err
	}
	if n.PausedNs == 0 {
		return &ResumeReconcileResult{}, nil
	}
	if err := tx.put("DELETE FROM pauses WHERE namespace = ?", o.Id); err != nil {
		return nil, err
	}
	if err := tx.updateNamespace(n); err != nil {
		return nil, err
	}
	tx.wake = true
	return &ResumeReconcileResult{}, tx.audit(o.Meta, n.Org, o.Id)
}
