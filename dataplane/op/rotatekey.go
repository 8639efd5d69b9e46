package op

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// RotateKey gives an API key a new secret under the same id. The previous secret stays valid for the overlap; the
// secret before that ends at once. So a key never has more than two secrets, and a rotation without overlap ends
// all earlier ones.

// Validate refuses an op that no state could accept.
func (o *RotateKey) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("id", checkWord(o.Id, job.MaxKeyID))
	p.hash("hash", o.Hash)
	if o.OverlapNs < 0 || o.OverlapNs > int64(job.MaxKeyOverlap) {
		p.add("overlap", fmt.Errorf("is %d ns; it lies between 0 and %v", o.OverlapNs, job.MaxKeyOverlap))
	}
	return p.err()
}

// Apply changes the key. It refuses an unknown id with NOT_FOUND. It refuses with CONFLICT a key that has
// changed since the request was authorised, and a caller whose own key has changed or been revoked since.
func (o *RotateKey) Apply(tx *state.Tx) (*RotateKeyResult, error) {
	was := tx.Key(o.Id)
	if was == nil {
		return nil, api.Errorf(api.NotFound, "there is no API key %q", o.Id)
	}
	if err := asJudged(was, o.JudgedVersion); err != nil {
		return nil, err
	}
	if err := callerAsJudged(tx, o.Meta, o.CallerVersion); err != nil {
		return nil, err
	}
	k := proto.Clone(was).(*state.Key)
	k.Hash, k.PreviousHash, k.PreviousUntilNs = o.Hash, nil, 0
	if o.OverlapNs > 0 {
		k.PreviousHash, k.PreviousUntilNs = was.Hash, tx.ClockNs()+o.OverlapNs
	}
	k.Changes++
	if err := tx.PutKey(k); err != nil {
		return nil, err
	}
	return &RotateKeyResult{Key: k}, nil
}
