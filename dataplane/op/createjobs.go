package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// CreateJobs creates jobs that follow from others: the next step of a chain, the job after the end of a chain
// or after its failed step, a batch's callback, a schedule's run, an agent's tool. Their cause has happened
// already and no client waits for an answer, so CreateJobs refuses nothing: it ignores the limits on the
// number of queues and on their length. It skips a job that is on this shard already or has left it for
// another. If another job holds the unique key of a schedule's run, CreateJobs creates no job but adds a
// DUPLICATE event of the holder to the feed, as an enqueue does.

// Validate refuses an op that no shard can have sent.
func (o *CreateJobs) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("jobs", len(o.Jobs), job.MaxEnqueueJobs)
	if ids := o.GetMeta().GetIds(); len(ids) != len(o.Jobs) {
		p.add("meta.ids", fmt.Errorf("has %d ids for %d jobs", len(ids), len(o.Jobs)))
	} else if len(o.Jobs) <= job.MaxEnqueueJobs {
		checkNewIDs(&p, ids, o.Jobs)
		for i, nj := range o.Jobs {
			nj.check(&p, i)
			nj.checkMade(&p, i)
		}
	}
	p.whole(o)
	return p.err()
}

// Apply creates the jobs.
func (o *CreateJobs) Apply(tx *state.Tx) (*CreateJobsResult, error) {
	for i, nj := range o.Jobs {
		if err := nj.createUnlessKnown(tx, o.Meta.Ids[i]); err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
	}
	return &CreateJobsResult{}, nil
}

func (nj *NewJob) createUnlessKnown(tx *state.Tx, id []byte) error {
	known, err := isOrWasHere(tx, id)
	if err != nil || known {
		return err
	}
	return nj.create(tx, id, nil)
}

// isOrWasHere reports whether a job is on this shard or has left it for another.
func isOrWasHere(tx *state.Tx, id []byte) (bool, error) {
	j, err := jobOf(tx, id)
	if err != nil || j != nil {
		return j != nil, err
	}
	gone, err := tx.Forwarded(job.ID(id))
	return gone != nil, err
}
