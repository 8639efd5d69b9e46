package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// ReplayJob creates a job that repeats an iteration of an existing job and continues from there. The new job
// has the original's present payload, settings, origin and previous result, and the checkpoint that the
// iteration before the repeated one left. It has no unique or debounce key, batch, chain, dependencies,
// parent or schedule. The original may be in any state and does not change.
//
// Iteration 1 is repeated without a checkpoint, because the checkpoint of the enqueue is not kept. If the
// existing job is itself a replay that began at a later iteration, that iteration cannot be repeated, because
// only the replay's original has the checkpoint before it.
//
// A repeated ReplayJob, recognised by the new job's id, gives the first answer and changes nothing.

// Validate refuses an op that no state could accept.
func (o *ReplayJob) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.add("job_id", checkID(o.JobId))
	if o.From == 0 {
		p.add("from", errors.New("is missing: name an iteration, 1 or more"))
	}
	if ids := o.GetMeta().GetIds(); len(ids) != 1 {
		p.add("meta.ids", fmt.Errorf("has %d ids for one job", len(ids)))
	} else {
		p.add("meta.ids[0]", checkID(ids[0]))
	}
	return p.err()
}

// Apply creates the job. It refuses a job that does not exist, and an iteration that it cannot repeat, with
// NOT_FOUND. It refuses a job without iterations, and a job that has moved to a queue of another hash slot
// since the new id was made, with STATE_CONFLICT. The queue may refuse the new job with CONFLICT while it is
// being deleted, with QUEUE_FULL, or with OVERLOADED if the number of lanes is at its limit, or if the queue
// would have to drop a job for the new one and the entry is full.
func (o *ReplayJob) Apply(tx *state.Tx) (*ReplayJobResult, error) {
	id := o.Meta.Ids[0]
	result := &ReplayJobResult{Id: id}
	if made, err := isOrWasHere(tx, id); err != nil || made {
		return result, err
	}
	j, err := jobOf(tx, o.JobId)
	if err != nil {
		return nil, err
	}
	before, err := o.before(tx, j)
	if err != nil {
		return nil, err
	}
	if job.ID(id).Slot() != job.SlotOf(j.Queue) {
		return nil, api.Errorf(api.StateConflict, "job %s has gone to queue %q meanwhile: try again", job.ID(j.Id), j.Queue)
	}
	nj, err := o.newJob(tx, j, before)
	if err != nil {
		return nil, err
	}
	one := &Enqueue{Meta: o.Meta, Jobs: []*NewJob{nj}}
	if err := one.admitLanes(tx); err != nil {
		return nil, err
	}
	queues, err := one.admit(tx, nil)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if err := q.evict(tx); err != nil {
			return nil, fmt.Errorf("make room in queue %q: %w", q.queue.Name, err)
		}
	}
	made, err := nj.make(tx, id, nil)
	if err != nil {
		return nil, err
	}
	d := made.Details()
	d.Iteration, d.SpentBeforeNanoUsd = o.From-1, before.GetTotalCostNanoUsd()
	tx.AddEvent(state.EventType_EVENT_REPLAYED, j)
	return result, tx.PutJob(made)
}

// before returns the iteration before the repeated one, or nil for the first. It refuses a job or an
// iteration that cannot be replayed.
func (o *ReplayJob) before(tx *state.Tx, j *job.Job) (*job.Iteration, error) {
	id, d := job.ID(o.JobId), j.GetDetail()
	switch {
	case j == nil:
		return nil, api.Errorf(api.NotFound, "there is no job %s", id)
	case d.GetIterationsKept() == 0:
		return nil, api.Errorf(api.StateConflict, "job %s has no iterations to replay", id)
	}
	first := d.GetIteration() - d.GetIterationsKept() + 1
	switch {
	case o.From < first || o.From > d.GetIteration():
		return nil, api.Errorf(api.NotFound, "job %s has no iteration %d: it has %d to %d", id, o.From, first, d.GetIteration())
	case o.From == 1:
		return nil, nil
	case o.From == first:
		return nil, api.Errorf(api.NotFound, "job %s does not have the input of its first iteration, %d: replay job %s, its original", id, first, job.ID(j.Options.GetReplayOf()))
	}
	return tx.Iteration(j, o.From-1)
}

// newJob returns the description of the new job.
func (o *ReplayJob) newJob(tx *state.Tx, j *job.Job, before *job.Iteration) (*NewJob, error) {
	nj := &NewJob{Queue: j.Queue, Priority: j.Priority, Retry: j.Retry, Tags: j.Tags, Headers: j.Headers, Origin: j.Origin, Options: j.Options.Copy(),
		FairnessKey: j.FairnessKey, FairnessWeight: j.FairnessWeight}
	nj.Options.UniqueKey, nj.Options.UniquePeriodMs, nj.Options.UniqueWholePeriod = "", 0, false
	nj.Options.DebounceKey, nj.Options.DebounceMs = "", 0
	nj.Options.ParentId, nj.Options.ScheduleId, nj.Options.DependencyPolicy = nil, nil, job.DependencyFail
	nj.Options.ReplayOf, nj.Options.ReplayFrom = j.Id, o.From
	var err error
	if nj.Payload, err = tx.Blob(j, job.Payload); err != nil {
		return nil, err
	}
	if nj.Previous, err = tx.Blob(j, job.Previous); err != nil {
		return nil, err
	}
	if nj.ResultSchema, err = tx.Blob(j, job.ResultSchema); err != nil {
		return nil, err
	}
	nj.Checkpoint, err = checkpointOf(tx, j, before)
	return nj, err
}

// checkpointOf returns the checkpoint that an iteration left, or nil.
func checkpointOf(tx *state.Tx, j *job.Job, it *job.Iteration) (*job.Blob, error) {
	if it.GetCheckpointIn() == it.GetNumber() {
		return it.GetCheckpoint(), nil
	}
	if it.GetCheckpointIn() == 0 {
		return nil, nil
	}
	has, err := tx.Iteration(j, it.CheckpointIn)
	return has.GetCheckpoint(), err
}
