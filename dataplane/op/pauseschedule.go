package op

import (
	"errors"

	"github.com/corvo/corvo/dataplane/state"
)

// PauseSchedule pauses a schedule, or resumes it from next_run, which the proposer has computed. The runs that the
// schedule missed while it was paused are not made up for. The op is refused with NOT_FOUND if the schedule does
// not exist. If the schedule is paused or running as asked already, the op changes nothing, not even the next run.

// Validate refuses an op that no state could accept.
func (o *PauseSchedule) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.scheduleID("id", o.Id)
	if o.NextRunNs < 0 {
		p.add("next_run", errors.New("lies before 1970"))
	}
	return p.err()
}

// Apply pauses or resumes the schedule.
func (o *PauseSchedule) Apply(tx *state.Tx) (*PauseScheduleResult, error) {
	s, err := scheduleOf(tx, o.Id)
	if err == nil {
		err = agreeOn(s, o.Id, 0)
	}
	if err != nil {
		return nil, err
	}
	if s.Paused != o.Paused {
		s.Paused = o.Paused
		s.Version++
		if !o.Paused {
			s.NextRunNs = o.NextRunNs
		}
		if err := tx.PutSchedule(s, s.Name); err != nil {
			return nil, err
		}
	}
	return &PauseScheduleResult{Schedule: answered(s)}, nil
}
