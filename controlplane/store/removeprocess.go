package store

import "github.com/corvo/corvo/engine"

// RemoveProcess writes the audit row of the removal of a process. It comes before the removal, so that no process is
// removed without a row. The group's members are in its configuration and not in this state, so that Apply cannot
// check the id.

// Validate refuses an op that no state could accept.
func (o *RemoveProcess) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("id", checkWord(o.Id, engine.MaxGroupName))
	return p.err()
}

// Apply adds the audit row. It refuses nothing.
func (o *RemoveProcess) Apply(tx *Tx) (*RemoveProcessResult, error) {
	return &RemoveProcessResult{}, tx.audit(o.Meta, "", o.Id)
}
