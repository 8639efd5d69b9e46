package op

import (
	"errors"

	"github.com/corvo/corvo/dataplane/state"
)

// TrimFeed removes from the feed each entry whose events all lie before first_seq. The entry that carries the
// op stays. A first_seq that is not after the feed's first event changes nothing.

// Validate refuses an op that no state could accept.
func (o *TrimFeed) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.FirstSeq == 0 {
		p.add("first_seq", errors.New("is missing; name the first event to keep"))
	}
	return p.err()
}

// Apply trims the feed. It refuses nothing.
func (o *TrimFeed) Apply(tx *state.Tx) (*TrimFeedResult, error) {
	head := tx.Head()
	first := min(o.FirstSeq, head.FeedNextSeq)
	if first > head.FeedFirstSeq {
		if err := tx.TrimFeed(first); err != nil {
			return nil, err
		}
	}
	return &TrimFeedResult{}, nil
}
