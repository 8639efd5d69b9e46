package op

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// PutSchedule creates a schedule, or replaces the schedule with that id, which keeps its creation time and
// last run. The op is refused with CONFLICT if another schedule has the name, or if create is set and the id
// is taken or the number of schedules is at its limit. Without create it is refused with NOT_FOUND if there
// is no schedule to replace, and with PRECONDITION_FAILED if the schedule has another version than the client
// saw.

// MaxTimezone is the maximum length of a time zone's name in bytes.
const MaxTimezone = 64

// Validate refuses an op that no state could accept.
func (o *PutSchedule) Validate() error {
	var p problems
	o.Meta.check(&p)
	s := o.GetSchedule()
	p.scheduleID("schedule.id", s.GetId())
	p.add("name", job.CheckScheduleName(s.GetName()))
	p.add("queue", job.CheckStoredQueueName(s.GetQueue()))
	p.add("shard", checkShard(s.GetShard()))
	if _, err := job.ParseCron(s.GetCron()); err != nil {
		p.add("cron", err)
	}
	p.add("timezone", job.CheckText(s.GetTimezone(), MaxTimezone))
	if s.GetTimezone() == "" {
		p.add("timezone", errors.New("is missing; UTC is one"))
	}
	if s.GetPayload() == nil {
		p.add("payload", errors.New("is missing"))
	} else if n := len(s.Payload.Data); n > job.MaxPayload {
		p.Add(api.PayloadTooLarge, "payload", "has %d bytes; at most %d are allowed", n, job.MaxPayload)
	}
	p.add("payload", job.CheckSeal(s.GetPayload()))
	p.add("unique_key", job.CheckText(s.GetUniqueKey(), job.MaxUniqueKey))
	if s.GetFairnessKey() != "" {
		p.add("fairness_key", CheckFairnessKey(s.FairnessKey))
	}
	p.add("fairness_weight", checkFairnessWeight(s.GetFairnessKey(), s.GetFairnessWeight()))
	if n := s.GetMaxAttempts(); n < 1 || n > job.MaxAttempts {
		p.add("max_retries", fmt.Errorf("is %d; it counts attempts, from 1 to %d", n, job.MaxAttempts))
	}
	if s.GetPriority() >= job.Priorities {
		p.add("priority", fmt.Errorf("is %d; use critical (0), high (1) or normal (2)", s.GetPriority()))
	}
	if _, known := state.Missed_name[int32(s.GetMissed())]; !known {
		p.add("missed", fmt.Errorf("is %d; use skip (0), once (1) or all (2)", s.GetMissed()))
	}
	if ms := s.GetJitterMs(); ms < 0 || ms > job.MaxScheduleJitter.Milliseconds() {
		p.add("jitter", fmt.Errorf("is %d ms; it lies between 0 and %s", ms, job.MaxScheduleJitter))
	}
	if s.GetNextRunNs() < 0 {
		p.add("next_run", errors.New("lies before 1970"))
	}
	for _, err := range job.CheckTags(s.GetTags()) {
		p.add("tags", err)
	}
	for _, err := range job.CheckHeaders(s.GetHeaders()) {
		p.add("headers", err)
	}
	p.whole(o)
	return p.err()
}

// scheduleID records an id of the wrong length.
func (p *problems) scheduleID(field string, id []byte) {
	if len(id) != len(job.ID{}) {
		p.add(field, fmt.Errorf("has %d bytes; an id has %d", len(id), len(job.ID{})))
	}
}

// Apply stores the schedule.
func (o *PutSchedule) Apply(tx *state.Tx) (*PutScheduleResult, error) {
	rec := o.Schedule
	was, err := scheduleOf(tx, rec.Id)
	if err != nil {
		return nil, err
	}
	if o.Create {
		err = admitSchedule(tx, was)
	} else {
		err = agreeOn(was, rec.Id, o.IfVersion)
	}
	if err != nil {
		return nil, err
	}
	holder, taken, err := tx.ScheduleNamed(rec.Name)
	if err != nil {
		return nil, err
	}
	if taken && holder != job.ID(rec.Id) {
		// The message does not name the other: its queue may be outside the scope of the caller's key.
		return nil, api.Errorf(api.Conflict, "another schedule has the name %q; names are unique: choose another, or replace that one", rec.Name)
	}
	rec.CreatedNs, rec.LastRunNs, rec.Version = tx.ClockNs(), 0, 1
	if was != nil {
		rec.CreatedNs, rec.LastRunNs, rec.Version = was.CreatedNs, was.LastRunNs, was.Version+1
	}
	if sameRuns(was, rec) {
		// A run that became due after the proposer looked must not be lost.
		rec.NextRunNs = was.NextRunNs
	}
	if err := tx.PutSchedule(rec, was.GetName()); err != nil {
		return nil, err
	}
	return &PutScheduleResult{Schedule: answered(rec)}, nil
}

// sameRuns reports whether a replaced schedule keeps its run times and is paused neither before nor after.
func sameRuns(was, is *state.Schedule) bool {
	return was != nil && !was.Paused && !is.Paused && was.Cron == is.Cron && was.Timezone == is.Timezone
}

// admitSchedule refuses a new schedule with CONFLICT if its id is taken or the number of schedules is at its
// limit.
func admitSchedule(tx *state.Tx, was *state.Schedule) error {
	switch {
	case was != nil:
		return api.Errorf(api.Conflict, "schedule %s exists already", job.ScheduleIDText(job.ID(was.Id)))
	case tx.Schedules() >= job.MaxSchedules:
		return api.Errorf(api.Conflict, "the namespace has %d schedules, the maximum: delete one first", job.MaxSchedules)
	}
	return nil
}

// scheduleOf returns the schedule with an id, or nil.
func scheduleOf(tx *state.Tx, id []byte) (*state.Schedule, error) {
	parsed, err := job.IDFromBytes(id)
	if err != nil {
		return nil, err
	}
	return tx.Schedule(parsed)
}

// agreeOn refuses with NOT_FOUND if the schedule does not exist, and with PRECONDITION_FAILED if it has
// another version than the client saw; version 0 matches any.
func agreeOn(s *state.Schedule, id []byte, version uint64) error {
	switch {
	case s == nil:
		return api.Errorf(api.NotFound, "there is no schedule %s", job.ScheduleIDText(job.ID(id)))
	case version != 0 && s.Version != version:
		return api.Errorf(api.PreconditionFailed, "schedule %s has version %d, not %d: read it again", job.ScheduleIDText(job.ID(id)), s.Version, version)
	}
	return nil
}

// answered returns a copy of a schedule for the op's result, because later ops of the entry may change the
// record.
func answered(s *state.Schedule) *state.Schedule { return proto.Clone(s).(*state.Schedule) }
