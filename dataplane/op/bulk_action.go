package op

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// bulkAction is an action of a bulk operation and the states in which it accepts jobs. Each action but
// change_priority changes a job as an op for single jobs does, such as RetryJobs. Unlike CancelJobs, a bulk
// cancel refuses a job that is already cancelled.
type bulkAction struct {
	done string      // the past participle in refusals
	in   []job.State // the states that it accepts; nil: any
	act  func(tx *state.Tx, p *state.BulkPart, j *job.Job) (*Refusal, error)
}

var bulkActions = [...]bulkAction{
	state.BulkAction_BULK_ACTION_RETRY: {"retried", []job.State{job.Dead, job.Cancelled, job.Completed},
		asOne((&RetryJobs{}).revive)},
	state.BulkAction_BULK_ACTION_REQUEUE: {"requeued", []job.State{job.Dead},
		asOne((&RetryJobs{Requeue: true}).revive)},
	state.BulkAction_BULK_ACTION_CANCEL: {"cancelled", []job.State{job.Pending, job.Active, job.Scheduled, job.Retrying, job.Held},
		asOne(cancel)},
	state.BulkAction_BULK_ACTION_MOVE: {"moved", []job.State{job.Pending, job.Dead, job.Scheduled, job.Retrying, job.Completed, job.Held},
		moveOne},
	state.BulkAction_BULK_ACTION_CHANGE_PRIORITY: {"given another priority", []job.State{job.Pending, job.Scheduled, job.Retrying},
		changePriority},
	state.BulkAction_BULK_ACTION_APPROVE: {"approved", []job.State{job.Held},
		asOne((&ReleaseJobs{}).release)},
	state.BulkAction_BULK_ACTION_REJECT: {"rejected", []job.State{job.Held},
		asOne((&RejectJobs{}).reject)},
	state.BulkAction_BULK_ACTION_HOLD: {"held", []job.State{job.Pending, job.Scheduled, job.Retrying},
		asOne((&HoldJobs{}).hold)},
	state.BulkAction_BULK_ACTION_DELETE: {"deleted", nil,
		asOne(remove)},
}

// asOne adapts the action of a plural op to a bulk operation.
func asOne(act jobAction) func(*state.Tx, *state.BulkPart, *job.Job) (*Refusal, error) {
	return func(tx *state.Tx, _ *state.BulkPart, j *job.Job) (*Refusal, error) {
		done, err := act(tx, j)
		return done.GetRefusal(), err
	}
}

// moveOne moves a job as a MoveJobs of this job alone would, so MaxMoveBytes does not bound a chunk.
func moveOne(tx *state.Tx, p *state.BulkPart, j *job.Job) (*Refusal, error) {
	o := &MoveJobs{Queue: p.Queue, Shard: p.Shard}
	if err := o.admit(tx); err != nil {
		refused, ok := err.(*api.Error)
		if !ok {
			return nil, err
		}
		return refuse(refused.Code, "%s", refused.Message), nil
	}
	m := move{op: o, tx: tx}
	return m.job(j.Id)
}

// changePriority gives a waiting job another priority. The job keeps its number, so its age decides its place
// among the jobs of the new priority.
func changePriority(tx *state.Tx, p *state.BulkPart, j *job.Job) (*Refusal, error) {
	if j.Priority == p.Priority {
		return nil, nil
	}
	j.Priority = p.Priority
	return nil, tx.PutJob(j, state.EventType_EVENT_PRIORITY_CHANGED)
}

// do applies the action to a job, or refuses the job because of its state.
func (a *bulkAction) do(tx *state.Tx, p *state.BulkPart, j *job.Job) (*Refusal, error) {
	if a.in != nil {
		meant := false
		for _, s := range a.in {
			meant = meant || s == j.State
		}
		if !meant {
			return conflict(j, a.done, a.in...).Refusal, nil
		}
	}
	return a.act(tx, p, j)
}
