package op

import (
	"errors"
	"fmt"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// RunSchedules creates the jobs of due runs and stores each schedule's next run. It skips a schedule that is
// gone or paused, or that has run or changed since the proposer read it. It also skips a schedule while the
// outbox to the shard of its queue is full. Each run creates at most one job, however often it is proposed,
// because the job's id follows from the run, and Apply skips runs up to the schedule's last run. A run creates
// none if another job holds the schedule's unique key.
//
// A run by hand creates an additional job, even of a paused schedule, and leaves the schedule's times as they
// are.

// Validate refuses an op that no state could accept.
func (o *RunSchedules) Validate() error {
	var p problems
	o.Meta.check(&p)
	p.length("runs", len(o.Runs), job.MaxDutyItems)
	made := 0
	for i, r := range o.Runs {
		made += len(r.GetRunNs())
		if n := len(r.GetId()); n != len(job.ID{}) {
			p.item("runs", i, "id", fmt.Errorf("has %d bytes; an id has %d", n, len(job.ID{})))
		}
		p.item("runs", i, "run_ns", r.checkTimes())
	}
	if made > job.MaxDutyItems {
		p.add("runs", fmt.Errorf("make %d jobs; at most %d are allowed", made, job.MaxDutyItems))
	}
	return p.err()
}

// checkTimes checks that the runs of a schedule are in order and before its next run. A run by hand has no
// times.
func (r *Run) checkTimes() error {
	if r.GetByHand() {
		if len(r.RunNs) > 0 {
			return errors.New("is given for a run by hand, which is made now")
		}
		return nil
	}
	last := int64(0)
	for _, at := range r.GetRunNs() {
		if at <= last {
			return fmt.Errorf("has %d after %d; runs are in order", at, last)
		}
		last = at
	}
	if next := r.GetNextRunNs(); next != 0 && next <= max(last, r.GetDueNs()) {
		return fmt.Errorf("is not before next_run_ns, %d", next)
	}
	return nil
}

// repeats reports whether a second application finds nothing to do. A run by hand creates a job each time.
func (o *RunSchedules) repeats() bool {
	for _, r := range o.Runs {
		if r.GetByHand() {
			return false
		}
	}
	return true
}

// Apply creates the jobs. It refuses nothing.
func (o *RunSchedules) Apply(tx *state.Tx) (*RunSchedulesResult, error) {
	result := &RunSchedulesResult{}
	for _, r := range o.Runs {
		s, err := scheduleOf(tx, r.Id)
		if err != nil {
			return nil, err
		}
		if !r.applies(s) || s.Shard != tx.Shard() && !tx.CanSend(s.Shard) {
			continue
		}
		if r.ByHand {
			err = result.run(tx, s, tx.NewID(s.Queue), 0)
		} else {
			err = result.runAll(tx, s, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return result, nil
}

// didNothing reports whether no job was created, so that a client may ask for a run by hand again.
func (x *RunSchedulesResult) didNothing() bool { return len(x.JobIds) == 0 }

// applies reports whether a schedule is as the proposer saw it and not paused. A run by hand only needs the
// schedule to exist.
func (r *Run) applies(s *state.Schedule) bool {
	if r.ByHand {
		return s != nil
	}
	return s != nil && !s.Paused && s.Version == r.Version && s.NextRunNs == r.DueNs
}

// runAll creates the jobs of a schedule's due runs and stores the schedule's next run.
func (x *RunSchedulesResult) runAll(tx *state.Tx, s *state.Schedule, r *Run) error {
	id := job.ID(s.Id)
	for _, at := range r.RunNs {
		if at <= s.LastRunNs {
			continue
		}
		due := at + job.RunDelay(id, at, s.JitterMs)
		if due <= tx.ClockNs() {
			due = 0
		}
		if err := x.run(tx, s, job.RunID(id, s.Queue, at), due); err != nil {
			return err
		}
		s.LastRunNs = at
	}
	s.NextRunNs = r.NextRunNs
	return tx.PutSchedule(s, s.Name)
}

// run sends one job to the shard of the schedule's queue and adds its id to the result. It leaves the id out
// if the queue is on this shard and no job was created because another job holds the unique key.
func (x *RunSchedulesResult) run(tx *state.Tx, s *state.Schedule, id job.ID, dueNs int64) error {
	n := &NewJob{
		Queue:       s.Queue,
		Payload:     s.Payload,
		Priority:    s.Priority,
		Retry:       job.NewRetry(),
		ScheduledNs: dueNs,
		Tags:        s.Tags,
		Headers:     s.Headers,
		Options:     &job.Options{ScheduleId: s.Id},

		FairnessKey:    s.FairnessKey,
		FairnessWeight: s.FairnessWeight,
	}
	n.Retry.MaxAttempts = s.MaxAttempts
	if s.UniqueKey != "" {
		n.Opt().UniqueKey, n.Opt().UniquePeriodMs = s.UniqueKey, int64(job.DefaultUniquePeriod/time.Millisecond)
	}
	if err := send(tx, s.Shard, &CreateJobs{Meta: &Meta{Ids: [][]byte{id[:]}}, Jobs: []*NewJob{n}}); err != nil {
		return fmt.Errorf("run of schedule %s: %w", job.ScheduleIDText(job.ID(s.Id)), err)
	}
	if s.Shard == tx.Shard() {
		if j, err := tx.Job(id); err != nil || j == nil {
			return err
		}
	}
	x.JobIds = append(x.JobIds, id[:])
	return nil
}
