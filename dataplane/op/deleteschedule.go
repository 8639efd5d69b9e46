package op

import (
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// DeleteSchedule removes a schedule. The jobs that the schedule has created stay. The op is refused with
// NOT_FOUND if the schedule does not exist, and with PRECONDITION_FAILED if it has another version than the
// client saw.

// Validate refuses an op that no state could accept.
func (o *DeleteSchedule) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.scheduleID("id", o.Id)
	return p.err()
}

func (o *DeleteSchedule) Apply(tx *state.Tx) (*DeleteScheduleResult, error) {
	s, err := scheduleOf(tx, o.Id)
	if err == nil {
		err = agreeOn(s, o.Id, o.IfVersion)
	}
	if err != nil {
		return nil, err
	}
	return &DeleteScheduleResult{}, tx.DeleteSchedule(job.ID(o.Id))
}
