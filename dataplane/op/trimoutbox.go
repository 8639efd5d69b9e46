package op

import (
	"errors"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
)

// TrimOutbox removes the ops up to a number that were sent to a shard, because that shard has applied them.
// The outbox has their only copy, so a number that was not given yet is refused with STATE_CONFLICT: only a
// proposer with another history can know it. If the ops up to the number are removed already, TrimOutbox
// changes nothing.

// Validate refuses an op that no state could accept.
func (o *TrimOutbox) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("shard", checkShard(o.Shard))
	if o.UpTo == 0 {
		p.add("up_to", errors.New("is missing; name the last op that was applied"))
	}
	return p.err()
}

// Apply trims the outbox.
func (o *TrimOutbox) Apply(tx *state.Tx) (*TrimOutboxResult, error) {
	if has := tx.Outbox(o.Shard); o.UpTo >= has.Next {
		return nil, api.Errorf(api.StateConflict, "nothing was sent to shard %d under the number %d: the next one is %d", o.Shard, o.UpTo, has.Next)
	}
	return &TrimOutboxResult{}, tx.TrimOutbox(o.Shard, o.UpTo)
}
