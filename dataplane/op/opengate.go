package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// OpenGate lets jobs that waited at a gate be fetched again, in their old places. The proposer has found room
// for them; Apply decides on each again, as a fetch would. It skips a job that waits at no gate any more and
// a job that its gate still keeps. It moves a job that another gate keeps back to that gate. It holds or ends
// a job that another check holds or rejects, so that a job waits at a gate only for the room that the gate
// stands for. If the decision needs money from a budget's first shard, Apply asks that shard for the money.

// Validate refuses an op that no state could accept.
func (o *OpenGate) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply opens the gate for the jobs. It refuses nothing.
func (o *OpenGate) Apply(tx *state.Tx) (*OpenGateResult, error) {
	result := &OpenGateResult{}
	for _, b := range o.JobIds {
		if tx.Full() {
			break // the duty proposes the others again
		}
		j, err := jobOf(tx, b)
		if err != nil {
			return nil, err
		}
		if !AtGate(j) {
			continue
		}
		v, err := decide(tx, j)
		if err != nil {
			return nil, err
		}
		if v.stays(j) {
			continue
		}
		result.Opened++
		if v.Do != Take {
			err = v.follow(tx, j)
		} else {
			d := j.Details()
			d.Gate, d.GateName = job.Gate_GATE_NONE, ""
			err = tx.PutJob(j, state.EventType_EVENT_UNGATED)
		}
		if err != nil {
			return nil, err
		}
	}
	return result, nil
}

// AtGate reports whether a job waits at a gate.
func AtGate(j *job.Job) bool {
	return j.GetState() == job.Pending && j.Detail.GetGate() != job.Gate_GATE_NONE
}

// stays reports whether a verdict leaves a job at the gate where it waits.
func (v Verdict) stays(j *job.Job) bool {
	return v.Do == Park && v.Gate == j.Detail.GetGate() && v.Name == j.Detail.GetGateName()
}

// Opens reports whether OpenGate would take a job away from its gate, or would ask the first shard for money
// for it. If the job may run, g counts it with its provider and on the slices of its shared budgets as if it
// had been fetched, so that the caller does not select more jobs than have room together.
func (g *SnapshotState) Opens(j *job.Job) (bool, Verdict, error) {
	v, err := Decide(g, j)
	if err == nil {
		err = g.err
	}
	if err != nil || v.stays(j) {
		return v.asks != 0, v, err // OpenGate asks the first shard for money and leaves the job at its gate
	}
	if v.Do == Take {
		err = g.Reserve(j)
	}
	return true, v, err
}
