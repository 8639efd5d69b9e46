package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// OpenBulk begins a shard's part of a bulk operation; the home shard sends it. A filter covers only the jobs
// that exist on the shard when OpenBulk is applied, so that the operation does not reach jobs that its own
// actions create or move to the shard. OpenBulk refuses nothing.

// Validate refuses an op that no shard can have sent.
func (o *OpenBulk) Validate() error {
	var p problems
	o.Meta.check(&p)
	part, work := o.GetPart(), o.GetWork()
	p.bulkID("part.id", part.GetId())
	p.bulkAction(part.GetAction(), part.GetQueue(), part.GetShard(), part.GetPriority())
	p.scope(part.GetScope())
	p.bulkFilter(work.GetFilter(), part.GetInQueue(), part.GetInStates())
	p.jobIDs(work.GetJobIds())
	if n := len(work.GetJobIds()); n > job.MaxBulkIDs {
		p.add("work.job_ids", fmt.Errorf("has %d elements; at most %d are allowed", n, job.MaxBulkIDs))
	}
	if part.GetNamed() != (len(work.GetJobIds()) > 0) || part.GetNamed() == (len(work.GetFilter()) > 0) {
		p.add("work", errors.New("has neither ids nor a filter, or both, or not what the part says"))
	}
	if part.GetNext() != 0 || part.GetEnd() != 0 || part.GetCounts() != nil || part.GetFailuresReported() != 0 {
		p.add("part", errors.New("has begun already"))
	}
	p.whole(o)
	return p.err()
}

// Apply stores the part, unless the part is under way already.
func (o *OpenBulk) Apply(tx *state.Tx) (*OpenBulkResult, error) {
	id := [16]byte(o.Part.Id)
	known, err := tx.BulkPart(id)
	if err != nil || known != nil {
		return &OpenBulkResult{}, err
	}
	p := o.Part
	p.CreatedNs, p.ReportedNs = tx.ClockNs(), tx.ClockNs()
	p.End = tx.Head().GetNextJobNumber() // at least 1
	if p.Named {
		p.End = uint64(len(o.Work.JobIds))
	}
	return &OpenBulkResult{}, tx.OpenBulkPart(id, p, o.Work)
}
