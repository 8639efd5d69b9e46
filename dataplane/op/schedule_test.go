package op_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	builders["put-schedule"] = (*story).putSchedule
	builders["pause-schedule"] = func(s *story, items []item) op.Op {
		i := items[0]
		return &op.PauseSchedule{Meta: s.meta(i), Id: s.scheduleID(i), Paused: i.text("paused", "true") == "true", NextRunNs: s.at(i, "next")}
	}
	builders["delete-schedule"] = func(s *story, items []item) op.Op {
		return &op.DeleteSchedule{Meta: s.meta(items[0]), Id: s.scheduleID(items[0]), IfVersion: items[0].number(s.t, "if", 0)}
	}
	builders["run-schedules"] = (*story).runSchedules

	moreValid = append(moreValid,
		func(w *world) op.Op { return &op.PutSchedule{Schedule: w.newSchedule("s"), Create: true} },
		func(w *world) op.Op { return &op.PauseSchedule{Id: w.newSchedule("s").Id, Paused: true} },
		func(w *world) op.Op { return &op.DeleteSchedule{Id: w.newSchedule("s").Id} },
		func(w *world) op.Op { return &op.RunSchedules{Runs: []*op.Run{{Id: w.newSchedule("s").Id}}} },
	)
	prepare["run-schedules"] = func(w *world) op.Op {
		s := w.newSchedule("s")
		w.apply(&op.PutSchedule{Schedule: s, Create: true})
		w.clockNs = s.NextRunNs
		return &op.RunSchedules{Runs: []*op.Run{{Id: s.Id, Version: 1, DueNs: s.NextRunNs, RunNs: []int64{s.NextRunNs}, NextRunNs: s.NextRunNs + int64(time.Minute)}}}
	}
}

// newSchedule returns a schedule that runs in a minute.
func (w *world) newSchedule(name string) *state.Schedule {
	id := w.newID("q")
	return &state.Schedule{
		Id: id[:], Name: name, Queue: "q", Cron: "* * * * *", Timezone: "UTC", Payload: &job.Blob{Data: []byte("{}")},
		MaxAttempts: 3, Priority: job.Normal, NextRunNs: w.clockNs + int64(time.Minute),
	}
}

// scheduleID returns the id of the schedule that a command names.
func (s *story) scheduleID(i item) []byte { return s.proof(item{words: i.words[:1]}).Id }

// at returns a setting that is a time of the story, or 0 if it is missing.
func (s *story) at(i item, name string) int64 {
	text, ok := i.settings[name]
	if !ok {
		return 0
	}
	return epochNs + i.duration(s.t, text).Nanoseconds()
}

func (s *story) putSchedule(items []item) op.Op {
	i := items[0]
	missed := map[string]state.Missed{"skip": 0, "once": 1, "all": 2}[i.text("missed", "skip")]
	return &op.PutSchedule{
		Meta:      s.meta(i),
		Create:    i.has("create"),
		IfVersion: i.number(s.t, "if", 0),
		Schedule: &state.Schedule{
			Id: s.scheduleID(i), Name: repeated(i.text("name", i.words[0])), Queue: i.text("queue", "q"), Shard: uint32(i.number(s.t, "shard", 0)),
			Cron: i.text("cron", "@daily"), Timezone: "UTC", Payload: &job.Blob{Data: []byte(i.text("payload", "{}"))}, UniqueKey: i.text("unique", ""),
			MaxAttempts: uint32(i.number(s.t, "attempts", 3)), Priority: uint32(i.number(s.t, "priority", job.Normal)), Missed: missed,
			JitterMs: i.millis(s.t, "jitter", 0), Paused: i.has("paused"), NextRunNs: s.at(i, "next"),
			Tags: pairs(i.text("tags", "")), Headers: pairs(i.text("headers", "")),
		},
	}
}

// runSchedules reads, for each schedule, version=, due=, next= and the runs' times.
func (s *story) runSchedules(items []item) op.Op {
	o := &op.RunSchedules{Meta: s.meta(items[0])}
	for _, i := range items {
		r := &op.Run{Id: s.scheduleID(i), Version: i.number(s.t, "version", 1), DueNs: s.at(i, "due"), NextRunNs: s.at(i, "next"), ByHand: i.has("by-hand")}
		for _, word := range i.words[1:] {
			if word != "by-hand" {
				r.RunNs = append(r.RunNs, epochNs+i.duration(s.t, word).Nanoseconds())
			}
		}
		o.Runs = append(o.Runs, r)
	}
	return o
}

// nameRun names the jobs that schedules make "run1", "run2"... in the order they
// came.
func (s *story) nameRun(id []byte) string {
	if name, ok := s.names[job.ID(id)]; ok {
		return name
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("run%d", n)
		if _, taken := s.jobs[name]; !taken {
			s.jobs[name], s.names[job.ID(id)] = job.ID(id), name
			return name
		}
	}
}

func (s *story) printSchedules() {
	s.snapshot(func(v *state.Snapshot) {
		for rec, err := range v.Schedules() {
			if err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(&s.out, "schedule %s: %q %q version %d, paused %v, created %s last %s next %s\n",
				s.name(rec.Id), rec.Name, rec.Cron, rec.Version, rec.Paused, s.moment(rec.CreatedNs), s.moment(rec.LastRunNs), s.moment(rec.NextRunNs))
		}
	})
}

// A schedule passes at each bound. One beyond a bound is refused with the field's name.
func TestScheduleBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field string
		at    int
		code  api.Code
		set   func(s *state.Schedule, n int)
	}{
		{"name", job.MaxScheduleName, api.ValidationError, func(s *state.Schedule, n int) { s.Name = long(n) }},
		{"queue", job.MaxQueueName, api.ValidationError, func(s *state.Schedule, n int) { s.Queue = long(n) }},
		{"timezone", op.MaxTimezone, api.ValidationError, func(s *state.Schedule, n int) { s.Timezone = long(n) }},
		{"payload", job.MaxPayload, api.PayloadTooLarge, func(s *state.Schedule, n int) { s.Payload.Data = make([]byte, n) }},
		{"unique_key", job.MaxUniqueKey, api.ValidationError, func(s *state.Schedule, n int) { s.UniqueKey = long(n) }},
		{"max_retries", job.MaxAttempts, api.ValidationError, func(s *state.Schedule, n int) { s.MaxAttempts = uint32(n) }},
		{"priority", job.Priorities - 1, api.ValidationError, func(s *state.Schedule, n int) { s.Priority = uint32(n) }},
		{"missed", int(state.Missed_MISSED_ALL), api.ValidationError, func(s *state.Schedule, n int) { s.Missed = state.Missed(n) }},
		{"fairness_key", job.MaxFairnessKey, api.ValidationError, func(s *state.Schedule, n int) { s.FairnessKey = long(n) }},
		{"fairness_weight", job.MaxFairnessWeight, api.ValidationError, func(s *state.Schedule, n int) { s.FairnessKey, s.FairnessWeight = "k", uint32(n) }},
		{"jitter", int(job.MaxScheduleJitter.Milliseconds()), api.ValidationError, func(s *state.Schedule, n int) { s.JitterMs = int64(n) }},
		{"schedule.id", 16, api.ValidationError, func(s *state.Schedule, n int) { s.Id = make([]byte, n) }},
	} {
		w := &world{t: t, clockNs: epochNs}
		o := &op.PutSchedule{Schedule: w.newSchedule("s")}
		c.set(o.Schedule, c.at)
		if err := o.Validate(); err != nil {
			t.Errorf("%s at its bound: %v", c.field, err)
		}
		c.set(o.Schedule, c.at+1)
		err := o.Validate()
		refusedField(t, err, c.code, c.field)
	}
}

func refusedField(t *testing.T, err error, code api.Code, field string) {
	t.Helper()
	e, ok := err.(*api.Error)
	if !ok || e.Code != code {
		t.Errorf("%s: %v, want %s", field, err, code)
		return
	}
	if fields := e.Details["fields"].([]api.FieldError); fields[0].Field != field {
		t.Errorf("%s: it is %s that is refused", field, fields[0].Field)
	}
}

func TestRunSchedulesBounds(t *testing.T) {
	t.Parallel()
	w := &world{t: t, clockNs: epochNs}
	id := w.newSchedule("s").Id
	runs := func(n int) *op.RunSchedules {
		o := &op.RunSchedules{}
		for range n {
			o.Runs = append(o.Runs, &op.Run{Id: id})
		}
		return o
	}
	times := func(n int) *op.RunSchedules {
		r := &op.Run{Id: id}
		for i := range n {
			r.RunNs = append(r.RunNs, int64(i+1))
		}
		return &op.RunSchedules{Runs: []*op.Run{r}}
	}
	many, more := runs(job.MaxDutyItems), runs(job.MaxDutyItems+1)
	if err := many.Validate(); err != nil {
		t.Error(err)
	}
	refusedField(t, more.Validate(), api.ValidationError, "runs")
	if err := times(job.MaxDutyItems).Validate(); err != nil {
		t.Error(err)
	}
	refusedField(t, times(job.MaxDutyItems+1).Validate(), api.ValidationError, "runs")
	for _, r := range []*op.Run{
		{Id: id, RunNs: []int64{2, 2}}, {Id: id, RunNs: []int64{0}}, {Id: id, RunNs: []int64{5}, NextRunNs: 5}, {Id: id, DueNs: 5, NextRunNs: 4}, {Id: id, ByHand: true, RunNs: []int64{1}},
	} {
		refusedField(t, (&op.RunSchedules{Runs: []*op.Run{r}}).Validate(), api.ValidationError, "runs[0].run_ns")
	}
}

// The number of schedules is limited. At the limit, a schedule can still be replaced.
func TestMaxSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ops []op.Op
	for i := range job.MaxSchedules {
		ops = append(ops, &op.PutSchedule{Schedule: w.newSchedule(fmt.Sprint("s", i)), Create: true})
	}
	for _, result := range w.apply(ops...) {
		if err, refused := result.(error); refused {
			t.Fatal(err)
		}
	}
	one := ops[0].(*op.PutSchedule).Schedule
	if err, _ := w.apply(&op.PutSchedule{Schedule: one})[0].(error); err != nil {
		t.Error(err)
	}
	if err, _ := w.apply(&op.PutSchedule{Schedule: w.newSchedule("more"), Create: true})[0].(error); api.CodeOf(err) != api.Conflict {
		t.Errorf("one too many: %v", err)
	}
	w.check()
}

// A run by hand is no repeat of another.
func TestARunByHandDoesNotRepeat(t *testing.T) {
	t.Parallel()
	o := &op.RunSchedules{Runs: []*op.Run{{Id: make([]byte, 16), ByHand: true}}}
	if op.NewCodec().Repeats(op.Proposal(o)) {
		t.Error("it is said to repeat")
	}
}
