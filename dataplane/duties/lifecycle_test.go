package duties

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// bring stores a job as if another shard had moved it here.
func (s *shard) bring(change func(j *job.Job)) job.ID {
	s.t.Helper()
	s.ids++
	id := job.NewID(time.Now().UnixMilli(), "q", job.Entropy{7: byte(s.ids >> 8), 8: byte(s.ids)})
	j := &job.Job{Id: id[:], Queue: "q", State: job.Pending, Retry: job.NewRetry(), CreatedNs: time.Now().UnixNano(), Moves: 1}
	change(j)
	s.mustApply(&op.Arrive{Job: j})
	return id
}

func in(d time.Duration) int64 { return time.Now().Add(d).UnixNano() }

func TestAJobDiesWhenItsTimeIsOver(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		over := time.Now().Add(time.Hour)
		waits := s.bring(func(j *job.Job) { j.Details().ExpireNs = over.UnixNano() })
		held := s.bring(func(j *job.Job) { j.Details().ExpireNs, j.State = over.UnixNano(), job.Held })
		stays := s.bring(func(j *job.Job) {})
		s.becomes(waits, over, job.Pending, job.Dead)
		s.is(held, job.Dead)
		s.is(stays, job.Pending)
		if s.proposals() != 1 {
			t.Errorf("%d ops were proposed for what was over at once", s.proposals())
		}
	})
}

// Active jobs end when they expire, in one op, and a cancelled one ends as cancelled. Neither makes the duty
// propose again.
func TestAnActiveJobDiesWhenItsTimeIsOver(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		over := time.Now().Add(30 * time.Second)
		runs := s.bring(func(j *job.Job) { j.Details().ExpireNs = over.UnixNano() })
		s.fetch(time.Hour)
		stops := s.bring(func(j *job.Job) { j.Details().ExpireNs = over.UnixNano() })
		s.fetch(time.Hour)
		s.mustApply(&op.CancelJobs{JobIds: [][]byte{stops[:]}})
		s.becomes(runs, over, job.Active, job.Dead)
		s.is(stops, job.Cancelled)
		if s.proposals() != 1 {
			t.Errorf("%d ops were proposed for what was over at once", s.proposals())
		}
	})
}

func TestAUniqueKeyIsFreeWhenItsPeriodIsOver(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		first := s.bring(func(j *job.Job) { j.Opt().UniqueKey, j.Details().UniqueExpiresNs = "k", in(time.Hour) })
		locked := func() uint64 { return s.store.Head().GetLockRecords() }
		time.Sleep(time.Hour - time.Millisecond)
		synctest.Wait()
		if locked() != 1 {
			t.Errorf("%d keys are taken before the period is over", locked())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if locked() != 0 {
			t.Errorf("%d keys are taken after the period", locked())
		}
		s.is(first, job.Pending)
	})
}

func TestSettledJobsGoWhenTheirRetentionIsOver(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		done := s.bring(func(j *job.Job) { j.State, j.SettledNs = job.Completed, in(time.Hour-job.DefaultRetentionTime) })
		kept := s.bring(func(j *job.Job) { j.State = job.Dead })
		again := s.bring(func(j *job.Job) { j.State, j.SettledNs = job.Dead, in(time.Hour-job.DefaultRetentionTime) })
		s.mustApply(&op.RetryJobs{JobIds: [][]byte{again[:]}})
		s.becomes(done, time.Now().Add(time.Hour), job.Completed, job.State_STATE_UNSPECIFIED)
		s.is(kept, job.Dead)
		s.is(again, job.Pending)
		if _, next, err := s.store.RetentionDue(time.Now().UnixNano(), 1); next != never || err != nil {
			t.Errorf("something is still to go at %d: %v", next, err)
		}
	})
}
