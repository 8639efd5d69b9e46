package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// This file holds the loop of the ops that act on jobs named by id and answer with a JobsResult. Each job is
// handled on its own, so that a refusal of one does not stop the others. The file of each op holds only its
// rule.

// jobAction changes one existing job, or refuses to. It decides before it writes.
type jobAction func(tx *state.Tx, j *job.Job) (*JobDone, error)

// actOn calls act for the jobs in their order, and twice for an id that is given twice. Before act it refuses
// a job that is not on this shard with NOT_FOUND, and, if the entry is full, a job that belongs to a batch or
// a chain with OVERLOADED. Every op that calls actOn therefore has these two refusals besides those of its
// act.
func actOn(tx *state.Tx, ids [][]byte, act jobAction) (*JobsResult, error) {
	result := &JobsResult{Items: make([]*JobDone, len(ids))}
	for i, id := range ids {
		j, err := jobOf(tx, id)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if j == nil {
			result.Items[i] = &JobDone{Refusal: refuse(api.NotFound, "there is no job %s", job.ID(id))}
			continue
		}
		if refused := crowded(tx, j); refused != nil {
			result.Items[i] = &JobDone{Refusal: refused}
			continue
		}
		if result.Items[i], err = act(tx, j); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return result, nil
}

// didNothing reports whether every job was refused.
func (r *JobsResult) didNothing() bool {
	for _, item := range r.Items {
		if item.GetRefusal().GetCode() == "" {
			return false
		}
	}
	return true
}

// became returns the answer for a job that the op has changed: its present state.
func became(j *job.Job) *JobDone { return &JobDone{State: j.State} }

// conflict returns a STATE_CONFLICT that names the states that allow the action.
func conflict(j *job.Job, done string, in ...job.State) *JobDone {
	words := in[0].Word()
	for i, s := range in[1:] {
		if i < len(in)-2 {
			words += ", " + s.Word()
		} else {
			words += " or " + s.Word()
		}
	}
	return &JobDone{Refusal: refuse(api.StateConflict, "job %s is %s: only a job that is %s can be %s",
		job.ID(j.Id), j.State.Word(), words, done)}
}
