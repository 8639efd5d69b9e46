package store

// StartTerm is the first op of a new leader. It changes nothing; its entry sets the clock of the state.

// Validate refuses an op that no state could accept.
func (o *StartTerm) Validate() error {
	var p problems
	o.GetMeta().check(&p)

	return p.err()
}

// Apply returns an empty result. It refuses nothing.
func (o *StartTerm) Apply(*Tx) (*StartTermResult, error) { return &StartTermResult{}, nil }
