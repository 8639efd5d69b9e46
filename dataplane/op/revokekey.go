package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// RevokeKey deletes an API key. The store stays secured, also after its last
// key: without one, nobody gets in. With spare_last, what people ask for is refused
// where that would come of it.

// Number is RevokeKey's number in the log.
func (*RevokeKey) Number() entry.Number { return numRevokeKey }

// Class is RevokeKey's place among waiting proposals.
func (*RevokeKey) Class() pipeline.Class { return table[numRevokeKey].Class }

// Validate refuses what no state could accept.
func (o *RevokeKey) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("id", checkWord(o.Id, job.MaxKeyID))
	return p.err()
}

// Apply deletes the key. It refuses an id that no key has, a key or a caller that has
// become another since the client was let do it, and to lock everybody out where it is to
// spare the last.
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
