package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// PurgeBulks removes bulk operations that ended at least job.BulkKept ago. While more than BulksAim are kept,
// it also removes others that have ended, in the order of the op's ids, so that new operations have room. It
// never removes an operation that is under way.

// BulksAim is the number of bulk operations above which ended ones are removed before their time.
const BulksAim = job.MaxBulks / 8 * 7

// Validate refuses an op that no state could accept.
func (o *PurgeBulks) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("bulk_ids", o.BulkIds)
	return p.err()
}

// Apply removes the operations. It refuses nothing.
func (o *PurgeBulks) Apply(tx *state.Tx) (*PurgeBulksResult, error) {
	result := &PurgeBulksResult{}
	for _, id := range o.BulkIds {
		b, err := tx.Bulk([16]byte(id))
		if err != nil {
			return nil, err
		}
		if b.GetFinishedNs() == 0 || b.PurgeNs > tx.ClockNs() && tx.Bulks() <= BulksAim {
			continue
		}
		if err := tx.PutBulk([16]byte(id), nil); err != nil {
			return nil, err
		}
		result.Purged++
	}
	return result, nil
}
