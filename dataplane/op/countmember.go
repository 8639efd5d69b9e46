package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// CountMember reports to a batch how a member settled, on whichever shard the member was. The op refuses
// nothing. A batch that is gone or has counted all its members ignores the report. This happens only after
// one of the two shards was restored to an earlier time.

// Validate refuses an op that no shard can have sent.
func (o *CountMember) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.batchID("batch_id", o.BatchId)
	if !o.Outcome.Settled() {
		p.add("outcome", fmt.Errorf("is %q; a member is counted when it settles", o.Outcome.Word()))
	}
	return p.err()
}

func (o *CountMember) Apply(tx *state.Tx) (*CountMemberResult, error) {
	b, err := batchOf(tx, o.BatchId)
	if err != nil || b == nil || b.Settled() >= b.Total {
		return &CountMemberResult{}, err
	}
	countOutcome(b, o.Outcome)
	return &CountMemberResult{}, putBatch(tx, b)
}

// countOutcome counts a member, which may be a job or a batch, by the state in which it settled.
func countOutcome(b *state.Batch, outcome job.State) {
	switch outcome {
	case job.Completed:
		b.Succeeded++
	case job.Dead:
		b.Failed++
	default:
		b.Cancelled++
	}
}
