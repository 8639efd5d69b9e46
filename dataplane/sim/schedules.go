package sim

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func cloned(s *state.Schedule) *state.Schedule { return proto.Clone(s).(*state.Schedule) }

func (m *model) putSchedule(o *op.PutSchedule) outcome {
	s := cloned(o.GetSchedule())
	was := m.schedules[job.ID(s.GetId())]
	switch {
	case o.GetCreate() && was != nil:
		return outcome{refused: api.Conflict}
	case !o.GetCreate() && was == nil:
		return outcome{refused: api.NotFound}
	case !o.GetCreate() && o.GetIfVersion() != 0 && o.GetIfVersion() != was.GetVersion():
		return outcome{refused: api.PreconditionFailed}
	}
	for _, other := range m.schedules {
		if other != was && other.GetName() == s.GetName() {
			return outcome{refused: api.Conflict}
		}
	}
	s.CreatedNs, s.LastRunNs, s.Version = m.clockNs, 0, 1
	if was != nil {
		s.CreatedNs, s.LastRunNs, s.Version = was.GetCreatedNs(), was.GetLastRunNs(), was.GetVersion()+1
		if !was.GetPaused() && !s.GetPaused() && was.GetCron() == s.GetCron() && was.GetTimezone() == s.GetTimezone() {
			s.NextRunNs = was.GetNextRunNs()
		}
	}
	m.schedules[job.ID(s.GetId())] = s
	return outcome{result: &op.PutScheduleResult{Schedule: cloned(s)}}
}

func (m *model) pauseSchedule(o *op.PauseSchedule) outcome {
	s := m.schedules[job.ID(o.GetId())]
	if s == nil {
		return outcome{refused: api.NotFound}
	}
	if s.GetPaused() != o.GetPaused() {
		s.Paused = o.GetPaused()
		s.Version++
		if !s.GetPaused() {
			s.NextRunNs = o.GetNextRunNs()
		}
	}
	return outcome{result: &op.PauseScheduleResult{Schedule: cloned(s)}}
}

func (m *model) deleteSchedule(o *op.DeleteSchedule) outcome {
	s := m.schedules[job.ID(o.GetId())]
	switch {
	case s == nil:
		return outcome{refused: api.NotFound}
	case o.GetIfVersion() != 0 && o.GetIfVersion() != s.GetVersion():
		return outcome{refused: api.PreconditionFailed}
	}
	delete(m.schedules, job.ID(o.GetId()))
	return outcome{result: &op.DeleteScheduleResult{}}
}

func (m *model) runSchedules(o *op.RunSchedules) outcome {
	result := &op.RunSchedulesResult{}
	run := func(s *state.Schedule, id job.ID, dueNs int64) {
		n := &op.NewJob{
			Queue: s.GetQueue(), Payload: s.GetPayload(), Priority: s.GetPriority(), Retry: job.NewRetry(), ScheduledNs: dueNs,
			Tags: s.GetTags(), Headers: s.GetHeaders(), Options: &job.Options{ScheduleId: s.GetId(), UniqueKey: s.GetUniqueKey()},
			FairnessKey: s.GetFairnessKey(), FairnessWeight: s.GetFairnessWeight(),
		}
		n.Retry.MaxAttempts = s.GetMaxAttempts()
		if n.Options.GetUniqueKey() != "" {
			n.Opt().UniquePeriodMs = job.DefaultUniquePeriod.Milliseconds()
		}
		m.ledger.byRuns[id] = true
		m.createJob(s.GetShard(), id, n)
		if s.GetShard() != m.number || m.jobs[id] != nil {
			result.JobIds = append(result.JobIds, id[:])
		}
	}
	for _, r := range o.GetRuns() {
		id := job.ID(r.GetId())
		s := m.schedules[id]
		switch {
		case s == nil:
			continue
		case r.GetByHand():
			run(s, m.newID(s.GetQueue()), 0)
			continue
		case s.GetPaused(), s.GetVersion() != r.GetVersion(), s.GetNextRunNs() != r.GetDueNs():
			continue
		}
		for _, at := range r.GetRunNs() {
			if at <= s.GetLastRunNs() {
				continue
			}
			dueNs := at + job.RunDelay(id, at, s.GetJitterMs())
			if dueNs <= m.clockNs {
				dueNs = 0
			}
			run(s, job.RunID(id, s.GetQueue(), at), dueNs)
			s.LastRunNs = at
		}
		s.NextRunNs = r.GetNextRunNs()
	}
	return outcome{result: result}
}

// compareSchedules compares a store's schedules with the model's.
func (m *model) compareSchedules(v *state.Snapshot) error {
	seen := 0
	for s, err := range v.Schedules() {
		if err != nil {
			return err
		}
		seen++
		if want := m.schedules[job.ID(s.GetId())]; !proto.Equal(s, want) {
			return fmt.Errorf("schedule %x is %v in the store, %v in the model", s.GetId(), s, want)
		}
	}
	if seen != len(m.schedules) {
		return fmt.Errorf("the store has %d schedules, the model %d", seen, len(m.schedules))
	}
	return nil
}

// someSchedule draws a schedule's id, and returns the model's schedule, which is nil if the schedule does not
// exist.
func (w *workload) someSchedule() ([]byte, *state.Schedule) {
	if ids := sortedIDs(w.m.schedules); len(ids) > 0 && !w.chance(12) {
		id := pick(w, ids)
		return id[:], w.m.schedules[id]
	}
	id := w.id("nowhere")
	return id[:], nil
}

// version draws the version that a client saw of a schedule: mostly none or the current one.
func (w *workload) version(s *state.Schedule) uint64 {
	switch w.rng.IntN(4) {
	case 0:
		return s.GetVersion()
	case 1:
		return s.GetVersion() + uint64(w.rng.IntN(2))
	}
	return 0
}

func (w *workload) putSchedule() op.Op {
	to := w.anyShard()
	o := &op.PutSchedule{Meta: w.meta(), Create: w.chance(2) || len(w.m.schedules) == 0}
	id, was := w.someSchedule()
	if o.Create && !w.chance(10) {
		fresh := w.id("schedules")
		id = fresh[:]
	} else if !o.Create {
		o.IfVersion = w.version(was)
	}
	o.Schedule = &state.Schedule{
		Id: id, Name: fmt.Sprintf("schedule-%d", w.rng.IntN(6)), Queue: to.work.jobQueue(), Shard: to.number,
		Cron: pick(w, []string{"* * * * *", "*/5 * * * *"}), Timezone: "UTC", Payload: w.payload(),
		MaxAttempts: uint32(1 + w.rng.IntN(3)), Priority: uint32(w.rng.IntN(job.Priorities)), Missed: state.Missed(w.rng.IntN(3)),
		JitterMs: pick(w, []int64{0, 0, 5000}), Paused: w.chance(6), NextRunNs: w.soon(), Tags: w.tags(),
	}
	if w.chance(3) {
		o.Schedule.UniqueKey = w.key()
	}
	if w.keyed && w.chance(3) {
		o.Schedule.FairnessKey, o.Schedule.FairnessWeight = w.fairnessKey(), uint32(w.rng.IntN(4))
	}
	return o
}

// soon draws a time close to now.
func (w *workload) soon() int64 {
	return w.m.clockNs + w.rng.Int64N(int64(10*time.Second)) - int64(2*time.Second)
}

func (w *workload) pauseSchedule() op.Op {
	id, _ := w.someSchedule()
	return &op.PauseSchedule{Meta: w.meta(), Id: id, Paused: w.chance(2), NextRunNs: w.soon()}
}

func (w *workload) deleteSchedule() op.Op {
	id, s := w.someSchedule()
	return &op.DeleteSchedule{Meta: w.meta(), Id: id, IfVersion: w.version(s)}
}

func (w *workload) runSchedules() op.Op {
	o := &op.RunSchedules{Meta: duty()}
	for range 1 + w.rng.IntN(2) {
		id, s := w.someSchedule()
		r := &op.Run{Id: id, ByHand: w.chance(4)}
		o.Runs = append(o.Runs, r)
		if r.ByHand {
			continue
		}
		r.Version, r.DueNs = max(s.GetVersion(), 1), s.GetNextRunNs()
		if w.chance(8) {
			r.DueNs++
		}
		at := r.DueNs
		if w.chance(5) {
			at = s.GetLastRunNs() // a run that has already happened
		}
		for range w.rng.IntN(3) {
			if at == 0 {
				break // the schedule never runs
			}
			at++
			r.RunNs = append(r.RunNs, at-1)
			at += w.rng.Int64N(int64(time.Second))
		}
		if r.NextRunNs = max(at, r.DueNs) + 1 + w.rng.Int64N(int64(5*time.Second)); w.chance(8) {
			r.NextRunNs = 0
		}
	}
	return o
}
