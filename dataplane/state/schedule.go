package state

import (
	"fmt"
	"iter"

	"github.com/corvo/corvo/dataplane/job"
)

var scheduleKind = rowKind[*Schedule]{
	name:   "schedule",
	prefix: prefixSchedule,
	count:  func(h *Head) *uint64 { return &h.ScheduleRecords },
	timer: func(s *Schedule) timer {
		if s.Paused || s.NextRunNs == 0 {
			return timer{}
		}
		return timer{TimerSchedule, s.NextRunNs}
	},
}

// Schedule returns a schedule by id, or nil if there is none. The op may change it in place and must then
// call PutSchedule.
func (tx *Tx) Schedule(id [16]byte) (*Schedule, error) {
	return tx.schedules.get(tx, &scheduleKind, id)
}

// ScheduleNamed returns the id of the schedule with a name; ok is false if there is none.
func (tx *Tx) ScheduleNamed(name string) (id [16]byte, ok bool, err error) {
	return tx.Locked(LockScheduleName, "", name)
}

// Schedules returns the number of schedules.
func (tx *Tx) Schedules() uint64 { return tx.head.ScheduleRecords }

// PutSchedule stores a schedule under its id. was is the name that it had before, empty for a new schedule.
// The name of rec must be was, or one that no schedule has.
func (tx *Tx) PutSchedule(rec *Schedule, was string) error {
	if err := tx.putSchedule(rec, was); err != nil {
		return tx.fail(fmt.Errorf("put schedule %x, %q: %w", rec.Id, rec.Name, err))
	}
	return nil
}

func (tx *Tx) putSchedule(rec *Schedule, was string) error {
	id, err := job.IDFromBytes(rec.Id)
	if err != nil {
		return err
	}
	if err := tx.rename(id, was, rec.Name); err != nil {
		return err
	}
	tx.recordEvent(EventType_EVENT_SCHEDULE_CHANGED, rec.Queue, id)
	return tx.schedules.put(tx, &scheduleKind, id, rec)
}

// rename replaces the name of a schedule; an empty name is none.
func (tx *Tx) rename(id [16]byte, was, is string) error {
	if was == is {
		return nil
	}
	if was != "" {
		if err := tx.release(lockName{LockScheduleName, "", was}, id); err != nil {
			return err
		}
	}
	if is == "" {
		return nil
	}
	return tx.take(lockName{LockScheduleName, "", is}, id)
}

// DeleteSchedule removes a schedule. It does nothing if there is none.
func (tx *Tx) DeleteSchedule(id [16]byte) error {
	rec, err := tx.Schedule(id)
	if err != nil || rec == nil {
		return err
	}
	if err := tx.rename(id, rec.Name, ""); err != nil {
		return tx.fail(fmt.Errorf("delete schedule %x, %q: %w", id, rec.Name, err))
	}
	tx.recordEvent(EventType_EVENT_SCHEDULE_DELETED, rec.Queue, id)
	return tx.schedules.put(tx, &scheduleKind, id, nil)
}

// Schedule returns a schedule as of the last commit, or nil if there is none.
func (s *Store) Schedule(id [16]byte) (*Schedule, error) {
	return committed(s, func(r source) (*Schedule, error) { return readRow[Schedule](r, &scheduleKind, id) })
}

// Schedule returns a schedule, or nil if there is none.
func (v *Snapshot) Schedule(id [16]byte) (*Schedule, error) {
	return readRow[Schedule](v.snap, &scheduleKind, id)
}

// Schedules yields all schedules in order of their ids.
func (v *Snapshot) Schedules() iter.Seq2[*Schedule, error] {
	return scanRows[Schedule](v.snap, &scheduleKind, [16]byte{})
}
