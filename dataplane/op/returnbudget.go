package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/state"
)

// ReturnBudget reports to the first shard how a shard, which may be the first one itself, has used its slice
// of a shared budget: the amounts spent, given back and missing. The first shard books the spent amount in
// its present windows. ReturnBudget refuses nothing: it ignores a report on a budget that has been deleted
// since.
//
// A shard that was restored to an earlier time may report money twice. The first shard books it again, but
// takes no more from the shard's share than the share has.

// Validate refuses an op that no shard can have sent.
func (o *ReturnBudget) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.resourceID("id", o.Id)
	p.add("shard", checkShard(o.Shard))
	if o.SettledNanoUsd < 0 || o.OverrunNanoUsd < 0 || o.WantNanoUsd < 0 {
		p.add("settled_nano_usd", errors.New("is below 0, or overrun or want is"))
	}
	return p.err()
}

// Apply books the spent amount and serves waiting shards.
func (o *ReturnBudget) Apply(tx *state.Tx) (*ReturnBudgetResult, error) {
	result := &ReturnBudgetResult{}
	r := tx.ResourceIndex().ResourceByID([16]byte(o.Id))
	if r == nil {
		return result, nil
	}
	if !r.Shared() || tx.Shard() != firstShard {
		return nil, fmt.Errorf("shard %d tells of budget %q, and shard %d does not keep it", o.Shard, r.Name, tx.Shard())
	}
	a, err := accountOf(tx, r)
	if err != nil {
		return nil, err
	}
	s := a.ShareOf(o.Shard)
	a.Give(s, -min(o.GoneNanoUsd, s.GrantedNanoUsd))
	switch {
	case o.WantNanoUsd == 0:
		s.WantNanoUsd, s.Turn, s.Denied = 0, 0, false
	case o.Ask != s.Ask:
		if s.WantNanoUsd == 0 || s.Denied {
			a.Turn++
			s.Turn = a.Turn
		}
		s.WantNanoUsd, s.Denied = o.WantNanoUsd, false
	case s.WantNanoUsd != 0: // 0 means that the grant is already on its way
		s.WantNanoUsd = o.WantNanoUsd
	}
	s.Ask = o.Ask
	s.Returned = s.Returned || o.Recall != 0 && o.Recall == s.Recall
	spent := billing.Sums{Settled: money.Nano(o.SettledNanoUsd), Overrun: money.Nano(o.OverrunNanoUsd)}
	if err := recordCost(tx, r, a, spent); err != nil {
		return nil, err
	}
	return result, serve(tx, r)
}
