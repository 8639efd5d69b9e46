package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/pipeline"
)

// OpenGate lets jobs be fetched again that a gate kept, in their old places. The
// proposer saw them free; each is decided on again, as a fetch would. One that its
// gate still keeps is skipped, one that another gate keeps goes there, and one that is
// to be held or to die for another reason is and does, so that nobody waits at a gate
// for what is not behind it.

// Number is OpenGate's number in the log.
func (*OpenGate) Number() entry.Number { return numOpenGate }

// Class is OpenGate's place among waiting proposals.
func (*OpenGate) Class() pipeline.Class { return table[numOpenGate].Class }

// Validate refuses what no state could accept.
func (o *OpenGate) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.ids("job_ids", o.JobIds)
	return p.err()
}

// Apply lets the jobs go. It refuses nothing.
func (o *OpenGate) Apply(tx *state.Tx) (*OpenGateResult, error) {
	result := &OpenGateResult{}
	for _, b := range o.JobIds {
		if tx.Full() {
			break // the others stay where they are, and are seen again
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

// AtGate says whether a job waits at a gate.
func AtGate(j *job.Job) bool {
	return j.GetState() == job.Pending && j.Detail.GetGate() != job.Gate_GATE_NONE
}

// stays says whether a verdict on a job at a gate is that it waits on where it is.
func (v Verdict) stays(j *job.Job) bool {
	return v.Do == Park && v.Gate == j.Detail.GetGate() && v.Name == j.Detail.GetGateName()
}

// Opens says whether OpenGate would take a job away from the gate it waits at. A job
// that it would let go counts with its provider on g from then on, as if it had been
// fetched: so that of many that each find room, only as many are taken as do together.
func (g *Frozen) Opens(j *job.Job) (bool, Verdict, error) {
	v, err := Decide(g, j)
	if err == nil {
		err = g.err
	}
	if err != nil || v.stays(j) {
		return v.asks != 0, v, err // OpenGate asks, and leaves it there
	}
	if v.Do == Take {
		err = g.Rehearse(j)
	}
	return true, v, err
}
