package op

import (
	"errors"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// GrantBudget gives a shard more of a shared budget, tells the shard that there is no more, or asks the shard
// for the unused part of its slice. A grant may also ask for the unused part. The shard keeps a grant for a
// moment (job.SliceKeep) for the job that asked, because two shards that lack money would otherwise take it
// from each other again and again, and neither job would begin. The op refuses nothing: if the budget has
// been deleted meanwhile, there is nothing to grant.

// Validate refuses an op that the first shard cannot have sent.
func (o *GrantBudget) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.resourceID("id", o.Id)
	if o.AmountNanoUsd < 0 {
		p.add("amount_nano_usd", errors.New("is below 0"))
	}
	if d := o.Denial; d != nil && d.AmountNanoUsd <= 0 {
		p.add("denial", errors.New("is of nothing: say how much there is no room for"))
	}
	if o.AmountNanoUsd == 0 && o.Denial == nil && o.Recall == 0 {
		p.add("amount_nano_usd", errors.New("is missing, and so are denial and recall"))
	}
	return p.err()
}

func (o *GrantBudget) Apply(tx *state.Tx) (*GrantBudgetResult, error) {
	result := &GrantBudgetResult{}
	r := tx.ResourceIndex().ResourceByID([16]byte(o.Id))
	if !r.Shared() {
		return result, nil
	}
	a, err := accountOf(tx, r)
	if err != nil {
		return nil, err
	}
	s := a.Slice
	answers := s.WantNanoUsd != 0 && o.Ask == s.Ask
	switch {
	case o.AmountNanoUsd > 0:
		s.GrantedNanoUsd += o.AmountNanoUsd
		s.Recall, s.Returned = o.Recall, false
		s.UsedNs, s.KeepNs = tx.ClockNs(), tx.ClockNs()+int64(job.SliceKeep)
		if answers {
			s.WantNanoUsd, s.Denial = 0, nil
		}
	case o.Denial != nil:
		if !answers {
			return result, nil // the shard has asked for another amount since, or needs nothing
		}
		s.Denial = o.Denial
	default:
		s.Recall, s.Returned = o.Recall, false
		if s.Free() == 0 || tx.ClockNs() >= s.KeepNs {
			return result, notifyFirstShard(tx, r, a)
		}
	}
	return result, tx.PutAccount([16]byte(r.Id), a)
}
