package duties

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// settle puts completed jobs into the shard's queue that have just settled.
func (s *shard) settle(jobs int) {
	s.t.Helper()
	for range jobs {
		s.bring(func(j *job.Job) { j.State, j.SettledNs = job.Completed, time.Now().UnixNano() })
	}
}

// keeps sets the queue's retention, in milliseconds.
func (s *shard) keeps(ms int64) {
	s.t.Helper()
	s.mustApply(&op.SetQueue{Meta: &op.Meta{}, Queue: "q", Retention: &job.Retention{CompletedMs: ms}})
	synctest.Wait()
}

// round lets virtual time pass until the next round has ended, and expects that many jobs to be left.
func (s *shard) round(want int) {
	s.t.Helper()
	time.Sleep(purgePause)
	synctest.Wait()
	s.left(want)
}

// left fails the test unless that many completed jobs are left.
func (s *shard) left(want int) {
	s.t.Helper()
	v := s.store.Snapshot()
	defer v.Close()
	q, err := v.Queue("q")
	if err != nil {
		s.t.Fatal(err)
	}
	if got := int(q.GetInState()[job.Completed]); got != want {
		s.t.Fatalf("%d completed jobs are left, want %d", got, want)
	}
}

func TestAShorterRetentionRemovesJobsInRounds(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		const rounds = 5
		s.settle(rounds * purgeRound)
		time.Sleep(time.Hour)
		s.left(rounds * purgeRound)
		s.keeps(1)
		for n := rounds - 1; n >= 0; n-- {
			s.left(n * purgeRound)
			s.round(max(0, n-1) * purgeRound)
		}
		if n := s.proposals(); n != rounds {
			t.Errorf("%d ops were proposed for %d rounds", n, rounds)
		}
	})
}

// The newest retention applies, even while the duty removes jobs by an older one.
func TestALaterRetentionSupersedesAnEarlierOne(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		s.settle(4 * purgeRound)
		time.Sleep(time.Hour)
		s.keeps(1)
		s.left(3 * purgeRound)
		s.keeps(job.Forever)
		s.round(3 * purgeRound)
		s.keeps(time.Hour.Milliseconds())
		s.left(2 * purgeRound)
		s.keeps(2 * time.Hour.Milliseconds())
		time.Sleep(time.Hour - 2*purgePause)
		s.left(2 * purgeRound)
		s.round(purgeRound)
		s.round(0)
	})
}

func TestANewLeaderGoesOnWithARetention(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		s.settle(4 * purgeRound)
		time.Sleep(time.Hour)
		s.keeps(1)
		s.round(2 * purgeRound)
		s.resign()
		if err := <-s.ended; err != nil {
			t.Fatal(err)
		}
		s.round(2 * purgeRound)
		s.lead()
		s.left(purgeRound)
		s.round(0)
	})
}

// A round removes as many more jobs as have settled since the last one, so that the backlog does not grow,
// however many jobs settle. A chunk stays within job.MaxDutyItems.
func TestRemovalKeepsUpWithWhatSettles(t *testing.T) {
	inShard(t, 1<<40, func(s *shard) {
		const backlog, meanwhile = 4 * purgeRound, job.MaxDutyItems + 100
		s.settle(backlog)
		time.Sleep(time.Hour)
		s.keeps(1)
		for n := 3; n > 0; n-- {
			s.left(n * purgeRound)
			s.settle(meanwhile)
			s.round((n - 1) * purgeRound)
		}
		for _, o := range s.proposed {
			if n := len(o.(*op.PurgeJobs).JobIds); n > job.MaxDutyItems {
				t.Errorf("one op removes %d jobs", n)
			}
		}
	})
}

// Jobs that settle in queues that keep them do not hasten the removal of others, whether the queue keeps them for
// ever or for longer than they have been there.
func TestKeptJobsDoNotHastenRemoval(t *testing.T) {
	for name, kept := range map[string]int64{"for ever": job.Forever, "for a day": 24 * time.Hour.Milliseconds()} {
		t.Run(name, func(t *testing.T) {
			inShard(t, 1<<40, func(s *shard) {
				const backlog = 4 * purgeRound
				s.mustApply(&op.SetQueue{Meta: &op.Meta{}, Queue: "busy", Retention: &job.Retention{CompletedMs: kept}})
				s.settle(backlog)
				time.Sleep(time.Hour)
				s.keeps(1)
				for n := 3; n > 0; n-- {
					s.left(n * purgeRound)
					for range purgeRound {
						s.bring(func(j *job.Job) { j.Queue, j.State, j.SettledNs = "busy", job.Completed, time.Now().UnixNano() })
					}
					s.round((n - 1) * purgeRound)
				}
			})
		})
	}
}
