package duties

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// inQueues runs a test with a shard whose duties find jobs in the store itself, in place of the view, which
// has tests of its own.
func inQueues(t *testing.T, test func(*shard)) {
	t.Helper()
	var s *shard
	find := func(_ context.Context, queue string, states []job.State, below uint64, limit int) ([]job.ID, error) {
		v := s.store.Snapshot()
		defer v.Close()
		var found []*job.Job
		for j, err := range v.Jobs() {
			if err != nil {
				return nil, err
			}
			if j.Queue == queue && slices.Contains(states, j.State) && j.Number < below {
				found = append(found, j)
			}
		}
		slices.SortFunc(found, func(a, b *job.Job) int {
			return cmp.Or(slices.Index(states, a.State)-slices.Index(states, b.State), -cmp.Compare(a.Number, b.Number))
		})
		var ids []job.ID
		for _, j := range found[:min(len(found), limit)] {
			ids = append(ids, job.ID(j.Id))
		}
		return ids, nil
	}
	inShardOf(t, Config{FeedKeep: 1 << 40, UsageKeep: 1 << 40, JobIDs: find}, func(made *shard) { s = made; test(s) })
}

func (s *shard) setRate(limit uint32, window time.Duration) {
	s.t.Helper()
	ms := window.Milliseconds()
	s.mustApply(&op.SetQueue{Meta: &op.Meta{}, Queue: "q", RateLimit: &limit, RateWindowMs: &ms})
}

// fetchable waits until a number of jobs may be fetched, and returns the time.
func (s *shard) fetchable(want int) time.Time {
	s.t.Helper()
	for range 1000 {
		synctest.Wait()
		if s.store.Fetchable("q") == want {
			return time.Now()
		}
		time.Sleep(time.Second / 8)
	}
	s.t.Fatalf("%d jobs are fetchable, not %d", s.store.Fetchable("q"), want)
	return time.Time{}
}

func TestARateLimitedQueueIsFreeInTime(t *testing.T) {
	inQueues(t, func(s *shard) {
		s.setRate(2, 64*time.Second)
		for range 5 {
			s.enqueue(time.Time{}, "")
		}
		begun := time.Now()
		s.fetch(time.Hour)
		s.fetch(time.Hour)
		before := s.proposals()
		if waited := s.fetchable(2).Sub(begun); waited < 64*time.Second || waited > 66*time.Second {
			t.Errorf("two more were fetchable after %s", waited)
		}
		if n := s.proposals() - before; n != 1 {
			t.Errorf("%d ops were proposed", n)
		}
	})
}

// The duty proposes nothing for a queue that is kept back by something else, or that has no jobs.
func TestNothingIsReplenishedInVain(t *testing.T) {
	one, paused := uint32(1), true
	for name, o := range map[string]*op.SetQueue{
		"paused":      {Queue: "q", Paused: &paused},
		"at its most": {Queue: "q", MaxConcurrency: &one},
		"empty":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			inQueues(t, func(s *shard) {
				s.setRate(1, time.Second)
				s.enqueue(time.Time{}, "")
				if o != nil {
					s.enqueue(time.Time{}, "")
				}
				s.fetch(12 * time.Hour)
				if o != nil {
					o.Meta = &op.Meta{}
					s.mustApply(o)
				}
				before := s.proposals()
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := s.proposals() - before; n != 0 {
					t.Errorf("%d ops were proposed", n)
				}
			})
		})
	}
}

func TestAQueueIsClearedInChunks(t *testing.T) {
	inQueues(t, func(s *shard) {
		active := s.enqueue(time.Time{}, "")
		s.fetch(12 * time.Hour)
		for range job.MaxDutyItems {
			s.enqueue(time.Time{}, "")
		}
		later := s.enqueue(time.Now().Add(time.Hour), "")
		before := s.proposals()
		s.mustApply(&op.ClearQueue{Meta: &op.Meta{}, Queue: "q"})
		after := s.enqueue(time.Time{}, "")
		<-s.store.Cleared("q")
		synctest.Wait()
		s.is(active, job.Active)
		s.is(later, 0)
		s.is(after, job.Pending)
		if q := s.queue(); q.Cleared != job.MaxDutyItems+1 || q.ClearBelow != 0 {
			t.Errorf("%d were cleared, the clear goes on below %d", q.Cleared, q.ClearBelow)
		}
		if n := s.proposals() - before; n != 2 {
			t.Errorf("%d ops were proposed for %d jobs", n, job.MaxDutyItems+1)
		}
	})
}

func TestAQueueIsDeletedWithItsJobs(t *testing.T) {
	inQueues(t, func(s *shard) {
		time.Sleep(time.Minute) // the term's grace is over
		s.enqueue(time.Time{}, "")
		completed := s.fetch(time.Hour)
		s.mustApply(&op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: completed.Id, Token: completed.LeaseToken}}}})
		held := s.enqueue(time.Time{}, "")
		leased := s.fetch(time.Minute)
		s.enqueue(time.Time{}, "")
		s.enqueue(time.Now().Add(time.Hour), "")
		s.mustApply(&op.DeleteQueue{Meta: &op.Meta{}, Queue: "q"})
		synctest.Wait()
		if q := s.queue(); q == nil || !q.Deleting {
			t.Fatalf("with an active job the queue is %v", q)
		}
		j, err := s.store.Job(held)
		if err != nil || !j.GetCancelling() || !j.GetDoomed() {
			t.Errorf("the active job is %v, %v", j, err)
		}
		before := s.proposals()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := s.proposals() - before; n != 0 {
			t.Errorf("%d ops were proposed while a worker takes its time", n)
		}
		s.mustApply(&op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{Proof: &op.LeaseProof{Id: leased.Id, Token: leased.LeaseToken}}}})
		<-s.store.Cleared("q")
		if q := s.queue(); q != nil {
			t.Errorf("the queue is there: %v", q)
		}
	})
}

// A view that lags, or that is too busy to answer, delays the clear and nothing else.
func TestAClearWaitsForTheView(t *testing.T) {
	for name, late := range map[string]func(context.Context) error{
		"behind": func(context.Context) error { return api.Errorf(api.ViewBehind, "later") },
		"busy":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) { clearWaits(t, late) })
	}
}

func clearWaits(t *testing.T, late func(context.Context) error) {
	t.Helper()
	var seen atomic.Bool
	find := func(ctx context.Context, _ string, _ []job.State, _ uint64, _ int) ([]job.ID, error) {
		if !seen.Load() {
			return nil, fmt.Errorf("ask: %w", late(ctx))
		}
		return nil, nil
	}
	inShardOf(t, Config{FeedKeep: 100, UsageKeep: 100, JobIDs: find}, func(s *shard) {
		s.enqueue(time.Time{}, "")
		s.mustApply(&op.ClearQueue{Meta: &op.Meta{}, Queue: "q"})
		due := time.Now().Add(10 * time.Second)
		s.becomes(s.enqueue(due, ""), due, job.Scheduled, job.Pending)
		seen.Store(true)
		<-s.store.Cleared("q")
	})
}

// queue returns the record of the queue, or nil if there is none.
func (s *shard) queue() *state.Queue {
	s.t.Helper()
	v := s.store.Snapshot()
	defer v.Close()
	q, err := v.Queue("q")
	if err != nil {
		s.t.Fatal(err)
	}
	return q
}
