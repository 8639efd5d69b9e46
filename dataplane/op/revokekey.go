package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// RevokeKey deletes an API key. The store stays secured after its last key, so that nobody can use it without
// a key. With spare_last, which requests of people set, the op refuses to delete the last administrator.

// Validate refuses an op that no state could accept.
func (o *RevokeKey) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("id", checkWord(o.Id, job.MaxKeyID))
	return p.err()
}

// Apply deletes the key. It refuses an unknown id with NOT_FOUND. It refuses with CONFLICT a key that has
// changed since the request was authorised, a caller whose own key has changed or been revoked since, and,
// with spare_last, the last key that administers the namespace.
func (o *RevokeKey) Apply(tx *state.Tx) (*RevokeKeyResult, error) {
	k := tx.Key(o.Id)
	if k == nil {
		return nil, api.Errorf(api.NotFound, "there is no API key %q", o.Id)
	}
	if err := asJudged(k, o.JudgedVersion); err != nil {
		return nil, err
	}
	if err := callerAsJudged(tx, o.Meta, o.CallerVersion); err != nil {
		return nil, err
	}
	if o.SpareLast {
		if err := othersAdminister(tx, k); err != nil {
			return nil, err
		}
	}
	if err := tx.DeleteKey(o.Id); err != nil {
		return nil, err
	}
	return &RevokeKeyResult{}, nil
}
