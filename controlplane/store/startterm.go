package store

// StartTerm is the first op of a new leader. Its entry sets the clock of the state. In a state of an earlier build it numbers
// the documents of the kinds that build did not have.

// Validate refuses an op that no state could accept.
func (o *StartTerm) Validate() error {
	var p problems
	o.GetMeta().check(&p)

	return p.err()
}

// Apply returns an empty result. It refuses nothing.
func (o *StartTerm) Apply(tx *Tx) (*StartTermResult, error) {
	return &StartTermResult{}, tx.numberDocuments()
}
