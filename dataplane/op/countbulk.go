package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// CountBulk reports to the home shard the progress of one shard's part of a bulk operation. The counts cover
// all jobs of the part so far. The op refuses nothing. It skips a report for an unknown operation or for a
// part that has ended. This happens only after the reporting shard or the home shard was restored to an
// earlier time.

// Validate refuses an op that no shard can have sent.
func (o *CountBulk) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.bulkID("bulk_id", o.BulkId)
	p.add("shard", checkShard(o.Shard))
	if n := len(o.Failures); n > job.MaxBulkFailures {
		p.add("failures", fmt.Errorf("has %d elements; at most %d are allowed", n, job.MaxBulkFailures))
	}
	for i, f := range o.Failures {
		if n := len(f.GetJobId()); n != len(job.ID{}) {
			p.item("failures", i, "job_id", fmt.Errorf("has %d bytes; an id has %d", n, len(job.ID{})))
		}
	}
	p.add("error", job.CheckText(o.Error, job.MaxErrorText))
	p.whole(o)
	return p.err()
}

// Apply records the report. The end of the last part also ends the operation.
func (o *CountBulk) Apply(tx *state.Tx) (*CountBulkResult, error) {
	id := [16]byte(o.BulkId)
	b, err := tx.Bulk(id)
	if err != nil || b == nil {
		return &CountBulkResult{}, err
	}
	under, known := false, false
	for _, s := range b.Shares {
		if s.Shard == o.Shard && !s.Ended {
			known = true
			s.Counts, s.Reported, s.Ended = o.Counts, true, o.Ended
		}
		under = under || !s.Ended
	}
	if !known {
		return &CountBulkResult{}, nil
	}
	room := max(0, job.MaxBulkFailures-len(b.Failures))
	b.Failures = append(b.Failures, o.Failures[:min(room, len(o.Failures))]...)
	if b.Error == "" {
		b.Error = o.Error
	}
	b.UpdatedNs = tx.ClockNs()
	if !under {
		b.FinishedNs, b.PurgeNs = tx.ClockNs(), tx.ClockNs()+int64(job.BulkKept)
	}
	return &CountBulkResult{}, tx.PutBulk(id, b)
}
