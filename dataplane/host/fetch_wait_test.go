package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

func nothing([]string) bool { return false }

func allowed() error { return nil }

// parked starts n polls and returns once they wait; each sends its outcome.
func parked(t *testing.T, l *waitingPolls, ctx context.Context, n int, queues ...string) <-chan error {
	t.Helper()
	out := make(chan error, n)
	for range n {
		go func() { out <- l.park(ctx, queues, nothing, allowed) }()
	}
	synctest.Wait()
	return out
}

func TestAWakeReachesAsManyPollsAsThereAreJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitingPolls()
		ctx, cancel := context.WithCancel(t.Context())
		out := parked(t, l, ctx, 5, "a", "b")
		l.wake("a", 2)
		l.wake("elsewhere", 2)
		synctest.Wait()
		if len(out) != 2 || <-out != nil || <-out != nil {
			t.Fatalf("%d polls returned, want 2 woken ones", len(out)+2)
		}
		l.wake("b", 10)
		for range 3 {
			if err := <-out; err != nil {
				t.Fatal(err)
			}
		}
		if n := l.count.Load(); n != 0 || len(l.waiting) != 0 {
			t.Errorf("%d polls and %d queues are left waiting", n, len(l.waiting))
		}
		cancel()
	})
}

func TestTheLongestWaitingPollIsWokenFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitingPolls()
		ctx, cancel := context.WithCancel(t.Context())
		var outs []<-chan error
		for range 3 {
			outs = append(outs, parked(t, l, ctx, 1, "a"))
		}
		for i, out := range outs {
			l.wake("a", 1)
			synctest.Wait()
			if len(out) != 1 {
				t.Fatalf("wake %d did not reach poll %d", i, i)
			}
		}
		cancel()
	})
}

func TestAPollThatFindsWorkDoesNotWait(t *testing.T) {
	t.Parallel()
	l := newWaitingPolls()
	if err := l.park(t.Context(), []string{"a"}, func([]string) bool { return true }, allowed); err != nil {
		t.Fatal(err)
	}
	if n := l.count.Load(); n != 0 {
		t.Errorf("%d polls are left waiting", n)
	}
}

func TestAPollEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitingPolls()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.park(ctx, []string{"a", "a"}, nothing, allowed); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		if n := l.count.Load(); n != 0 || len(l.waiting) != 0 {
			t.Errorf("%d polls and %d queues are left waiting", n, len(l.waiting))
		}
	})
}

// TestAWakeIsNeverLost checks that another waiting poll gets the job if a poll ends in the moment in which it
// is woken, in either order of the two events.
func TestAWakeIsNeverLost(t *testing.T) {
	t.Parallel()
	for range 300 {
		l := newWaitingPolls()
		var jobs atomic.Int64
		ready := func([]string) bool { return jobs.Load() > 0 }
		take := func(ctx context.Context) {
			for {
				err := l.park(ctx, []string{"a"}, ready, allowed)
				for n := jobs.Load(); n > 0; n = jobs.Load() {
					if err == nil && jobs.CompareAndSwap(n, n-1) {
						return
					}
					if err != nil {
						break
					}
				}
				if err != nil {
					return
				}
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		var early, late sync.WaitGroup
		early.Go(func() { take(leaving) })
		late.Go(func() { take(t.Context()) })
		go leave()
		jobs.Add(1)
		l.wake("a", 1)
		early.Wait()
		if jobs.Load() == 0 {
			jobs.Add(1)
			l.wake("a", 1)
		}
		late.Wait() // hangs if a wake was lost
	}
}

func TestTheLotIsBounded(t *testing.T) {
	t.Parallel()
	l := newWaitingPolls()
	l.count.Store(MaxParked)
	err := l.park(t.Context(), []string{"a"}, nothing, allowed)
	if api.CodeOf(err) != api.Overloaded {
		t.Errorf("poll number %d: %v, want %s", MaxParked+1, err, api.Overloaded)
	}
	if n := l.refused.Load(); n != 1 {
		t.Errorf("%d polls were refused, want 1", n)
	}
	l.count.Store(MaxParked - 1)
	if err := l.park(t.Context(), []string{"a"}, func([]string) bool { return true }, allowed); err != nil {
		t.Errorf("poll number %d: %v", MaxParked, err)
	}
}

// TestARecheckEndsOnlyPollsThatMayNotWait checks that a poll that waits for a minute ends if its key is
// revoked in the first second. Polls that may wait on keep their places.
func TestARecheckEndsOnlyPollsThatMayNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, revoked := newWaitingPolls(), errors.New("revoked")
		ctx, cancel := context.WithCancel(t.Context())
		first := parked(t, l, ctx, 1, "a")
		var refuse atomic.Bool
		second := make(chan error, 1)
		go func() {
			second <- l.park(ctx, []string{"a"}, nothing, func() error {
				if refuse.Load() {
					return revoked
				}
				return nil
			})
		}()
		synctest.Wait()
		l.recheckAll()
		synctest.Wait()
		if len(first)+len(second) != 0 {
			t.Fatal("a recheck ended polls that may wait")
		}
		refuse.Store(true)
		l.recheckAll()
		synctest.Wait()
		if len(first) != 0 || len(second) != 1 || !errors.Is(<-second, revoked) {
			t.Fatal("a recheck did not end the poll that may not wait, and that alone")
		}
		l.wake("a", 1)
		if err := <-first; err != nil || l.count.Load() != 0 {
			t.Errorf("the other: %v; %d polls are left", err, l.count.Load())
		}
		cancel()
	})
}

// TestAPollIsCheckedOnceItIsParked checks that a poll notices a revocation between its request's
// authentication and its parking.
func TestAPollIsCheckedOnceItIsParked(t *testing.T) {
	t.Parallel()
	l, revoked := newWaitingPolls(), errors.New("revoked")
	if err := l.park(t.Context(), []string{"a"}, nothing, func() error { return revoked }); !errors.Is(err, revoked) || l.count.Load() != 0 {
		t.Errorf("%v; %d polls are left", err, l.count.Load())
	}
}

func TestAClosedLotSendsEverybodyAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newWaitingPolls()
		out := parked(t, l, t.Context(), 3, "a", "b")
		l.close(notOpen())
		for range 3 {
			if err := <-out; !api.CodeOf(err).Retryable() {
				t.Errorf("a poll of a closing namespace: %v", err)
			}
		}
		if err := l.park(t.Context(), []string{"a"}, nothing, allowed); !api.CodeOf(err).Retryable() || l.count.Load() != 0 || len(l.waiting) != 0 {
			t.Errorf("one that comes later: %v; %d polls are left", err, l.count.Load())
		}
	})
}
