package duties

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// after enqueues n jobs in a queue of their own that depend on another job.
func (s *shard) after(id job.ID, n int) (ids []job.ID) {
	s.t.Helper()
	o := &op.Enqueue{Meta: &op.Meta{}}
	for range n {
		s.ids++
		waiter := job.NewID(time.Now().UnixMilli(), "after", job.Entropy{7: byte(s.ids >> 8), 8: byte(s.ids)})
		ids = append(ids, waiter)
		o.Meta.Ids = append(o.Meta.Ids, waiter[:])
		o.Jobs = append(o.Jobs, &op.NewJob{
			Queue: "after", Payload: &job.Blob{Data: []byte("{}")}, Retry: job.NewRetry(),
			DependsOn: []*op.Dependency{{JobId: id[:]}},
		})
	}
	s.mustApply(o)
	return ids
}

func (s *shard) ack(l *op.Leased) {
	s.t.Helper()
	s.mustApply(&op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}}}})
}

// Jobs that depend on another cost nothing until that job settles. Then the duty notifies all of them, in as
// many ops as necessary.
func TestDependentsAreToldWhenAJobSettles(t *testing.T) {
	inShard(t, feedKept, func(s *shard) {
		const waiters = 2*op.MaxNotified + 1
		id := s.enqueue(time.Time{}, "")
		leased := s.fetch(time.Hour)
		for n := waiters; n > 0; n -= job.MaxEnqueueJobs {
			s.after(id, min(n, job.MaxEnqueueJobs))
		}
		synctest.Wait()
		if n := s.proposals(); n != 0 {
			t.Errorf("%d ops were proposed while nothing had settled", n)
		}
		s.ack(leased)
		synctest.Wait()
		if n := s.store.Fetchable("after"); n != waiters {
			t.Errorf("%d of %d may be fetched", n, waiters)
		}
		if n := s.proposals(); n != 3 {
			t.Errorf("%d ops were proposed to tell %d waiters", n, waiters)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := s.proposals(); n != 3 {
			t.Errorf("%d ops were proposed in an hour in which nothing settled", n-3)
		}
	})
}

// A job that depends on failed jobs fails, and so does the job that depends on it.
func TestDependentsFailOneAfterTheOther(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		id := s.enqueue(time.Time{}, "")
		first := s.after(id, 1)[0]
		last := s.after(first, 1)[0]
		for range 3 {
			l := s.fetch(time.Minute)
			s.mustApply(&op.Fail{Meta: &op.Meta{}, Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Error: "e"}}})
			time.Sleep(5 * time.Second)
			synctest.Wait()
		}
		for _, id := range []job.ID{id, first, last} {
			s.is(id, job.Dead)
		}
	})
}

// If the outbox to a shard is full, the duty tries now and then, and not in a busy loop, to notify the
// dependents there.
func TestDependentsThatCannotBeToldAreNoBusyLoop(t *testing.T) {
	inShard(t, feedKept, func(s *shard) {
		id := s.enqueue(time.Time{}, "")
		waiter := job.NewID(time.Now().UnixMilli(), "far", job.Entropy{1})
		s.mustApply(&op.WatchJob{JobId: id[:], WaiterId: waiter[:], WaiterShard: 1})
		s.fill(1)
		l := s.fetch(time.Hour)
		s.ack(l)
		synctest.Wait()
		before := s.proposals()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.proposals() - before; n < 30 || n > 61 {
			t.Errorf("%d tries in a minute", n)
		}
		s.mustApply(&op.TrimOutbox{Shard: 1, UpTo: state.MaxOutboxOps})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if box := s.store.Outboxes()[0]; box.Ops() != 1 {
			t.Errorf("%d ops wait for the shard when there is room", box.Ops())
		}
		before = s.proposals()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := s.proposals() - before; n != 0 {
			t.Errorf("%d ops were proposed when all was told", n)
		}
	})
}

// fill fills the outbox to another shard.
func (s *shard) fill(to uint32) {
	s.t.Helper()
	s.ids++
	waiter := job.NewID(time.Now().UnixMilli(), "after", job.Entropy{7: byte(s.ids >> 8), 8: byte(s.ids)})
	nj := &op.NewJob{Queue: "after", Payload: &job.Blob{Data: []byte("{}")}, Retry: job.NewRetry()}
	for n := range state.MaxOutboxOps {
		id := job.NewID(0, "far", job.Entropy{7: byte(n >> 8), 8: byte(n)})
		nj.DependsOn = append(nj.DependsOn, &op.Dependency{JobId: id[:], Shard: to})
	}
	s.mustApply(&op.Enqueue{Meta: &op.Meta{Ids: [][]byte{waiter[:]}}, Jobs: []*op.NewJob{nj}})
}
