package op

import (
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// What the ops have in common that a person asks for of jobs by their ids: each job
// on its own, and a refusal of one does not stop the others. Their files hold only
// the rule of each.

// jobAction does something to a job that is there, or refuses to: it decides before
// it writes.
type jobAction func(tx *state.Tx, j *job.Job) (*JobDone, error)

// actOn does it to the jobs, in their order. A job that is not here is NOT_FOUND;
// one whose id is there twice is acted on twice. Where too much follows from those that
// end in one entry, the next are OVERLOADED.
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

// didNothing says that every job was refused.
func (r *JobsResult) didNothing() bool {
	for _, item := range r.Items {
		if item.GetRefusal().GetCode() == "" {
			return false
		}
	}
	return true
}

// became is the answer for a job that is in the state j has now.
func became(j *job.Job) *JobDone { return &JobDone{State: j.State} }

// conflict refuses what cannot be done to a job in its state: only in the named
// ones.
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
