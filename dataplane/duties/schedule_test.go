package duties

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// schedule creates a schedule that runs in queue q.
func (s *shard) schedule(cron, zone string, missed state.Missed) *state.Schedule {
	s.t.Helper()
	loc, err := Zone(zone)
	if err != nil {
		s.t.Fatal(err)
	}
	parsed, err := job.ParseCron(cron)
	if err != nil {
		s.t.Fatal(err)
	}
	s.ids++
	id := job.NewID(time.Now().UnixMilli(), "q", job.Entropy{8: byte(s.ids)})
	return s.mustApply(&op.PutSchedule{Meta: &op.Meta{}, Create: true, Schedule: &state.Schedule{
		Id: id[:], Name: cron + zone, Queue: "q", Cron: cron, Timezone: zone, Payload: &job.Blob{Data: []byte("{}")}, MaxAttempts: 3, Missed: missed,
		NextRunNs: parsed.Next(time.Now(), loc).UnixNano(),
	}}).(*op.PutScheduleResult).Schedule
}

// made returns the clocks of the entries that created the jobs of q, relative to since.
func (s *shard) made(since time.Time) (all []time.Duration) {
	s.t.Helper()
	v := s.store.Snapshot()
	defer v.Close()
	for j, err := range v.Jobs() {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, time.Unix(0, j.CreatedNs).Sub(since))
	}
	return all
}

// asleep refuses the duties' proposals for a while, as if nobody led.
func (s *shard) asleep(pause time.Duration) {
	refused := error(api.Errorf(api.LeaderUnavailable, "no leader"))
	s.refuse.Store(&refused)
	time.Sleep(pause)
	synctest.Wait()
	s.refuse.Store(nil)
	time.Sleep(maxBackoff)
	synctest.Wait()
}

func (s *shard) record(id []byte) *state.Schedule {
	s.t.Helper()
	rec, err := s.store.Schedule([16]byte(id))
	if err != nil {
		s.t.Fatal(err)
	}
	return rec
}

func minutes(all ...int) (out []time.Duration) {
	for _, n := range all {
		out = append(out, time.Duration(n)*time.Minute)
	}
	return out
}

func TestASchedulesJobsComeWhenDue(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		start := time.Now() // midnight of 2000-01-01 at UTC
		s.schedule("*/2 * * * *", "UTC", state.Missed_MISSED_SKIP)
		time.Sleep(7 * time.Minute)
		synctest.Wait()
		if got := s.made(start); !slices.Equal(got, minutes(2, 4, 6)) {
			t.Errorf("jobs came after %v", got)
		}
		if s.proposals() != 3 {
			t.Errorf("%d ops were proposed", s.proposals())
		}
	})
}

func TestASchedulesZoneCounts(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		start := time.Now()
		s.schedule("0 12 * * *", "Asia/Kathmandu", state.Missed_MISSED_SKIP)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if got := s.made(start); !slices.Equal(got, minutes(6*60+15)) {
			t.Errorf("jobs came after %v", got)
		}
	})
}

// A run that is late by less than an election takes is made under every policy, and only once.
func TestALateRunIsNotMissed(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		rec := s.schedule("*/5 * * * * *", "UTC", state.Missed_MISSED_SKIP)
		s.asleep(32 * time.Second)
		s.mustApply(&op.StartTerm{Meta: &op.Meta{}})
		if got := s.made(time.Now()); len(got) != 6 {
			t.Errorf("%d jobs came of 6 runs", len(got))
		}
		// The former leader has proposed the same ops, which are applied late.
		for _, o := range slices.Clone(s.proposed) {
			s.mustApply(o)
		}
		if got := s.made(time.Now()); len(got) != 6 {
			t.Errorf("%d jobs came of 6 runs, proposed again", len(got))
		}
		if last := time.Unix(0, s.record(rec.Id).LastRunNs); last.Second() != 30 {
			t.Errorf("it last ran at %s", last)
		}
	})
}

func TestMissedRuns(t *testing.T) {
	for name, c := range map[string]struct {
		missed state.Missed
		want   int
	}{
		"skip": {state.Missed_MISSED_SKIP, 0},
		"once": {state.Missed_MISSED_ONCE, 1},
		"all":  {state.Missed_MISSED_ALL, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inShard(t, 100, func(s *shard) {
				start := time.Now()
				rec := s.schedule("0 * * * *", "UTC", c.missed)
				s.asleep(4*time.Hour + 30*time.Minute)
				if got := s.made(start); len(got) != c.want {
					t.Errorf("%d jobs came of four missed runs", len(got))
				}
				if next := time.Unix(0, s.record(rec.Id).NextRunNs); next.Sub(start) != 5*time.Hour {
					t.Errorf("it runs next after %s", next.Sub(start))
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := s.made(start); len(got) != c.want+1 || got[len(got)-1] != 5*time.Hour {
					t.Errorf("jobs came after %v", got)
				}
			})
		})
	}
}

// If more runs were missed than job.MaxMissedRuns, the oldest are dropped. The newest are found quickly
// although a million were missed.
func TestMostMissedRuns(t *testing.T) {
	inShard(t, feedKept, func(s *shard) {
		start := time.Now()
		rec := s.schedule("*/10 * * * * *", "UTC", state.Missed_MISSED_ALL)
		rec.Timezone = "Etc/UTC" // another zone, so that PutSchedule takes NextRunNs from here
		rec.NextRunNs = start.Add(-120 * 24 * time.Hour).UnixNano()
		s.mustApply(&op.PutSchedule{Meta: &op.Meta{}, Schedule: rec})
		synctest.Wait()
		if got := s.made(start); len(got) != job.MaxMissedRuns+7 {
			t.Errorf("%d jobs came", len(got))
		}
		if last := time.Since(time.Unix(0, s.record(rec.Id).LastRunNs)); last != 0 {
			t.Errorf("it last ran %s ago", last)
		}
	})
}

// A schedule whose time zone this binary does not know delays no other schedule. The duty tries it again
// after stuckSchedules.
func TestAnUnknownZoneHoldsNothingUp(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		start := time.Now()
		bad := s.schedule("* * * * *", "UTC", state.Missed_MISSED_SKIP)
		bad.Timezone, bad.NextRunNs = "Mars/Olympus", start.Add(time.Minute).UnixNano()
		s.mustApply(&op.PutSchedule{Meta: &op.Meta{}, Schedule: bad})
		s.schedule("*/2 * * * *", "UTC", state.Missed_MISSED_SKIP)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := s.made(start); !slices.Equal(got, minutes(2, 4)) {
			t.Errorf("jobs came after %v", got)
		}
	})
}

func TestZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "Europe/Berlin"} {
		if loc, err := Zone(name); err != nil || loc.String() != name {
			t.Errorf("%s: %v, %v", name, loc, err)
		}
	}
	for _, name := range []string{"", "Local", "Mars/Olympus", "../../etc/passwd"} {
		if _, err := Zone(name); err == nil {
			t.Errorf("%q is a zone", name)
		}
	}
}
