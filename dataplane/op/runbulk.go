package op

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/tenancy"
)

// RunBulk runs a chunk of a shard's part of a bulk operation. The shard's leader has found the jobs in its
// view; Apply checks each again. It passes over a job that is gone, lies outside the requester's scope, or
// has left the filter's queue or states. A move by filter also passes over a job that is already in the
// target queue. If the request named the jobs by id, a job that is gone or outside the scope counts as an
// error. If the action is refused for a job, the refusal counts as an error, unless it is OVERLOADED. The
// home shard receives the first job.MaxBulkFailures errors of the part.
//
// The commit of the chunk's effects also has the part's counts and position, and a chunk that does not start
// at that position does nothing. So the second of two chunks from one position changes nothing, even if a
// former leader proposed one of them, and the counts are always exact.
//
// If the entry is full or the action is refused with OVERLOADED, the chunk ends early, and the part stands
// after its last finished job.

// bulkNotifyInterval is the minimum time, by the entry clock, between two reports of a running part to the
// home shard. A part that has new errors for the home shard, or has ended, reports at once.
const bulkNotifyInterval = time.Second

// Validate refuses an op that no state could accept.
func (o *RunBulk) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.bulkID("bulk_id", o.BulkId)
	if n := len(o.JobIds); n > job.MaxDutyItems {
		p.add("job_ids", fmt.Errorf("has %d elements; at most %d are allowed", n, job.MaxDutyItems))
	}
	p.jobIDs(o.JobIds)
	switch at := append(append([]uint64{o.From}, o.After...), o.To); {
	case len(o.After) != len(o.JobIds):
		p.add("after", fmt.Errorf("has %d elements for %d jobs", len(o.After), len(o.JobIds)))
	case !slices.IsSorted(at):
		p.add("after", errors.New("does not rise from where the chunk begins to where it ends"))
	case o.To == o.From && o.Failure == "":
		p.add("to", errors.New("is where the chunk begins: it would do nothing"))
	}
	p.add("failure", job.CheckText(o.Failure, job.MaxErrorText))
	return p.err()
}

// Apply runs the chunk. It refuses nothing.
func (o *RunBulk) Apply(tx *state.Tx) (*RunBulkResult, error) {
	p, err := tx.BulkPart([16]byte(o.BulkId))
	if err != nil || p == nil || p.Next != o.From {
		return &RunBulkResult{}, err
	}
	c := chunk{tx: tx, part: p, action: &bulkActions[p.Action]}
	if p.Counts == nil {
		p.Counts = &state.BulkCounts{}
	}
	result, to := &RunBulkResult{Applied: true}, o.To
	for i, id := range o.JobIds {
		done := false
		if !tx.Full() {
			if done, err = c.job(id); err != nil {
				return nil, fmt.Errorf("bulk %x, job %x: %w", o.BulkId, id, err)
			}
		}
		if !done {
			result.Waits, to = true, o.From
			if i > 0 {
				to = o.After[i-1]
			}
			break
		}
	}
	p.Next = min(to, p.End)
	return result, c.end(o.Failure)
}

// chunk is a RunBulk being applied.
type chunk struct {
	tx       *state.Tx
	part     *state.BulkPart
	action   *bulkAction
	failures []*state.BulkFailure
}

// job applies the action to a job if the operation is about the job. It returns false if the action is
// refused with OVERLOADED, so that the job has to wait.
func (c *chunk) job(id []byte) (done bool, err error) {
	j, err := jobOf(c.tx, id)
	if err != nil {
		return false, err
	}
	if !c.meant(j) {
		if c.part.Named {
			c.fail(id, refuse(api.NotFound, "there is no job %s", job.ID(id)))
		}
		return true, nil
	}
	refused, err := c.action.do(c.tx, c.part, j)
	switch {
	case err != nil:
		return false, err
	case refused.GetCode() == "":
		c.part.Counts.Affected++
	case refused.Code == string(api.Overloaded):
		return false, nil
	default:
		c.fail(id, refused)
	}
	return true, nil
}

// meant reports whether the operation is about a job. A job outside the requester's scope counts as absent.
func (c *chunk) meant(j *job.Job) bool {
	p := c.part
	switch {
	case j == nil || !covers(p.Scope, j.Queue):
		return false
	case p.Named:
		return true
	case p.InQueue != "" && j.Queue != p.InQueue:
		return false
	case p.Action == state.BulkAction_BULK_ACTION_MOVE && j.Queue == p.Queue:
		return false // it is in the target queue already, perhaps moved there by another shard's part
	}
	return len(p.InStates) == 0 || slices.Contains(p.InStates, j.State)
}

// covers reports whether queue globs match a queue; an empty list matches every queue.
func covers(globs []string, queue string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(g string) bool { return tenancy.Glob(g).Match(queue) })
}

// fail counts an error and keeps it for the home shard while the limit allows.
func (c *chunk) fail(id []byte, why *Refusal) {
	c.part.Counts.Errors++
	if int(c.part.FailuresReported)+len(c.failures) < job.MaxBulkFailures {
		c.failures = append(c.failures, &state.BulkFailure{JobId: id, Code: why.Code, Error: why.Message})
	}
}

// end stores the part's progress and reports to the home shard if a report is due.
func (c *chunk) end(failure string) error {
	p, now := c.part, c.tx.ClockNs()
	ended := p.Next >= p.End || failure != ""
	notifies := ended || len(c.failures) > 0 || now-p.ReportedNs >= int64(bulkNotifyInterval)
	if notifies {
		p.ReportedNs = now
		p.FailuresReported += uint32(len(c.failures))
	}
	id := [16]byte(p.Id)
	store := func() error { return c.tx.PutBulkPart(id, p) }
	if ended {
		store = func() error { return c.tx.CloseBulkPart(id) }
	}
	if err := store(); err != nil || !notifies {
		return err
	}
	return notifyHomeShard(c.tx, p, c.failures, ended, failure)
}

// notifyHomeShard sends a part's progress to the home shard.
func notifyHomeShard(tx *state.Tx, p *state.BulkPart, failures []*state.BulkFailure, ended bool, failure string) error {
	return send(tx, homeShard, &CountBulk{
		BulkId: p.Id, Shard: tx.Shard(), Failures: failures, Ended: ended, Error: failure,
		Counts: &state.BulkCounts{Affected: p.Counts.GetAffected(), Errors: p.Counts.GetErrors()},
	})
}
