package op

import (
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// Place makes jobs that follow from others: the next step of a chain, a batch's
// callback, a schedule's run. What they follow from has happened, and nobody waits
// for an answer, so it refuses nothing: no queue is too many, none too long. A job
// whose id is or was here is skipped. So is one whose unique key is taken, as the
// enqueue of a duplicate makes no job; the feed is told, by an event of the holder.

// Number is Place's number in the log.
func (*Place) Number() entry.Number { return numPlace }

// Class is Place's place among waiting proposals.
func (*Place) Class() pipeline.Class { return table[numPlace].Class }

// Validate refuses what no shard can have sent.
func (o *Place) Validate() error {
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

// Apply makes the jobs.
func (o *Place) Apply(tx *state.Tx) (*PlaceResult, error) {
	for i, nj := range o.Jobs {
		if err := nj.place(tx, o.Meta.Ids[i]); err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
	}
	return &PlaceResult{}, nil
}

func (nj *NewJob) place(tx *state.Tx, id []byte) error {
	known, err := isOrWasHere(tx, id)
	if err != nil || known {
		return err
	}
	return nj.create(tx, id, nil)
}

// isOrWasHere says whether a job is here, or has gone to another shard.
func isOrWasHere(tx *state.Tx, id []byte) (bool, error) {
	j, err := jobOf(tx, id)
	if err != nil || j != nil {
		return j != nil, err
	}
	gone, err := tx.Forwarded(job.ID(id))
	return gone != nil, err
}
