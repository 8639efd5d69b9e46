package duties

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// The tests of this package use these words. A shard is a real store and machine with the duties on top, in a
// synctest bubble. There is no log: an op is applied as soon as somebody proposes it. inShard runs a test
// with a shard whose duties run. The test calls mustApply for the ops of clients, and proposals counts the
// ops that the duties proposed. Time passes only while the test sleeps, so that a sleep is exact and not a
// wait. lead starts the duties as an election does, and resign ends them. refuse makes every proposal of the
// duties fail.

// shard is a real store and machine with duties on top, in virtual time. Only the log between them is
// missing: an op is applied as soon as it is proposed.
type shard struct {
	t        *testing.T
	store    *state.Store
	machine  *op.Machine
	duties   *Duties
	mu       sync.Mutex // serializes apply and guards proposed
	proposed []op.Op    // by the duties
	refuse   atomic.Pointer[error]
	viewSeq  atomic.Uint64
	ids      int
	ended    chan error
	resign   context.CancelFunc // ends the duties
}

// feedKept exceeds the number of events of any test.
const feedKept = 1_000_000

// inShard runs a test in virtual time with a shard whose duties run.
func inShard(t *testing.T, feedKeep uint64, test func(*shard)) {
	t.Helper()
	inShardOf(t, Config{FeedKeep: feedKeep, UsageKeep: 1 << 40}, test)
}

// inShardOf does the same as inShard with more of the configuration.
func inShardOf(t *testing.T, cfg Config, test func(*shard)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shard{t: t, ended: make(chan error, 1)}
		var err error
		if s.store, err = state.Open("/store", state.Options{FS: vfs.NewMem()}); err != nil {
			t.Fatal(err)
		}
		s.machine = op.NewMachine(s.store)
		cfg.Store = s.store
		cfg.Propose = func(_ context.Context, o op.Op) error {
			s.mu.Lock()
			s.proposed = append(s.proposed, o)
			s.mu.Unlock()
			if refused := s.refuse.Load(); refused != nil {
				return *refused
			}
			_, err := s.apply(o)
			return err
		}
		cfg.NowNs = func() int64 { return time.Now().UnixNano() }
		cfg.ViewSeq = s.viewSeq.Load
		cfg.Logger = slog.New(slog.DiscardHandler)
		s.duties = New(cfg)
		s.store.SetHooks(state.Hooks{
			OnTimer: s.duties.OnTimer, OnReplenish: s.duties.OnReplenish, OnRetention: s.duties.OnRetention, OnClearing: s.duties.OnClearing, OnGate: s.duties.OnGate,
			OnFeed: s.duties.OnFeed, OnUsage: s.duties.OnUsage, OnMeters: s.duties.OnMeters, OnAudit: s.duties.OnAudit,
		})
		s.mustApply(&op.StartTerm{Meta: &op.Meta{}})
		s.lead()
		test(s)
		s.resign()
		synctest.Wait()
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// lead runs the duties as a newly elected leader does.
func (s *shard) lead() {
	var ctx context.Context
	ctx, s.resign = context.WithCancel(context.Background())
	go func() { s.ended <- s.duties.Run(ctx) }()
	synctest.Wait()
}

func (s *shard) apply(o op.Op) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var b entry.Builder
	p := op.Proposal(o)
	if err := b.Add(p.Number(), p.SizeVT(), p); err != nil {
		return nil, err
	}
	e, err := entry.Decode(b.Finish(entry.Header{Level: s.machine.Level(), Incarnation: entry.Incarnation{1}, ClockNs: time.Now().UnixNano()}))
	if err != nil {
		return nil, err
	}
	results, err := s.machine.Apply(entry.Applied{Group: "test/0", Incarnation: entry.Incarnation{1}, Index: s.store.Applied().Index + 1, Term: 1}, e)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// proposals returns the number of ops that the duties have proposed so far.
func (s *shard) proposals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.proposed)
}

func (s *shard) mustApply(o op.Op) any {
	s.t.Helper()
	result, err := s.apply(o)
	if err == nil {
		if refused, ok := result.(error); ok {
			err = refused
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

func (s *shard) enqueue(due time.Time, key string) job.ID {
	s.t.Helper()
	s.ids++
	id := job.NewID(time.Now().UnixMilli(), "q", job.Entropy{7: byte(s.ids >> 8), 8: byte(s.ids)})
	o := &op.Enqueue{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Jobs: []*op.NewJob{{
		Queue:   "q",
		Payload: &job.Blob{Data: []byte("{}")},
		Retry:   &job.Retry{MaxAttempts: 3, Backoff: job.BackoffFixed, BaseDelayMs: 5000, MaxDelayMs: 5000},
	}}}
	if !due.IsZero() {
		o.Jobs[0].ScheduledNs = due.UnixNano()
	}
	if key != "" {
		o.Meta.Idempotency = &op.Idempotency{Key: key, RequestHash: make([]byte, 32)}
	}
	s.mustApply(o)
	return id
}

func (s *shard) fetch(lease time.Duration) *op.Leased {
	s.t.Helper()
	s.ids++
	got := s.mustApply(&op.Fetch{
		Meta: &op.Meta{LeaseSeed: append(make([]byte, 15), byte(s.ids))}, Queues: []string{"q"}, Count: 1, LeaseMs: lease.Milliseconds(),
	}).(*op.FetchResult)
	if len(got.Jobs) != 1 {
		s.t.Fatalf("fetched %d jobs", len(got.Jobs))
	}
	return got.Jobs[0]
}

// becomes lets virtual time pass until the moment before a job must change, and then to that moment.
func (s *shard) becomes(id job.ID, at time.Time, before, after job.State) {
	s.t.Helper()
	time.Sleep(time.Until(at) - time.Millisecond)
	synctest.Wait()
	s.is(id, before)
	time.Sleep(time.Millisecond)
	synctest.Wait()
	s.is(id, after)
}

func (s *shard) is(id job.ID, want job.State) {
	s.t.Helper()
	j, err := s.store.Job(id)
	if err != nil {
		s.t.Fatal(err)
	}
	if j.GetState() != want {
		s.t.Fatalf("the job is %s, want %s", j.GetState().Word(), want.Word())
	}
}

func TestAScheduledJobIsPromotedWhenDue(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		later := time.Now().Add(2 * time.Hour)
		soon := time.Now().Add(90 * time.Second)
		last := s.enqueue(later, "")
		first := s.enqueue(soon, "") // an earlier timer, set while the duties sleep
		s.becomes(first, soon, job.Scheduled, job.Pending)
		s.becomes(last, later, job.Scheduled, job.Pending)
		if s.proposals() != 2 {
			t.Errorf("%d ops were proposed for two jobs", s.proposals())
		}
	})
}

func TestARetryAndALeaseEndWhenDue(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		time.Sleep(time.Minute) // the term's grace is over
		id := s.enqueue(time.Time{}, "")
		s.fetch(30 * time.Second)
		over := time.Now().Add(30 * time.Second)
		s.becomes(id, over, job.Active, job.Pending)
		again := s.fetch(time.Hour)
		s.mustApply(&op.Fail{Meta: &op.Meta{}, Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: id[:], Token: again.LeaseToken}}}})
		s.becomes(id, time.Now().Add(5*time.Second), job.Retrying, job.Pending)
	})
}

func TestALeaseThatEndedBeforeTheTermGetsItsGrace(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		short, long := s.enqueue(time.Time{}, ""), s.enqueue(time.Time{}, "")
		s.fetch(3 * time.Second)
		s.fetch(60 * time.Second)
		// A new leader, later than both leases, whose duties have not looked yet.
		refused := error(api.Errorf(api.LeaderUnavailable, "no leader"))
		s.refuse.Store(&refused)
		time.Sleep(2 * time.Minute)
		s.mustApply(&op.StartTerm{Meta: &op.Meta{}})
		term := time.Now()
		s.refuse.Store(nil)
		s.becomes(short, term.Add(3*time.Second), job.Active, job.Pending)
		s.becomes(long, term.Add(job.ReclaimGrace), job.Active, job.Pending)
	})
}

func TestARenewedLeaseDoesNotEnd(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		time.Sleep(time.Minute)
		id := s.enqueue(time.Time{}, "")
		leased := s.fetch(30 * time.Second)
		for range 10 {
			time.Sleep(20 * time.Second)
			s.mustApply(&op.Heartbeat{Meta: &op.Meta{}, Items: []*op.HeartbeatItem{{Proof: &op.LeaseProof{Id: id[:], Token: leased.LeaseToken}}}})
		}
		synctest.Wait()
		s.is(id, job.Active)
	})
}

func TestIdempotencyKeysAreForgottenAfterADay(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		for i := range 3 {
			s.enqueue(time.Time{}, fmt.Sprint("key-", i))
		}
		time.Sleep(job.IdempotencyPeriod - time.Second)
		synctest.Wait()
		if n := s.store.Head().GetIdempotencyRecords(); n != 3 {
			t.Errorf("%d keys are remembered before their time is over", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.store.Head().GetIdempotencyRecords(); n != 0 {
			t.Errorf("%d keys are remembered after their time", n)
		}
	})
}

func TestMoreThanOneChunkIsDueAtOnce(t *testing.T) {
	inShard(t, feedKept, func(s *shard) {
		due := time.Now().Add(time.Hour)
		for range job.MaxDutyItems + 1 {
			s.enqueue(due, "")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := s.store.Fetchable("q"); n != job.MaxDutyItems+1 {
			t.Errorf("%d jobs are fetchable", n)
		}
		if s.proposals() != 2 {
			t.Errorf("%d ops were proposed", s.proposals())
		}
	})
}

func TestAnIdleShardProposesNothing(t *testing.T) {
	inShard(t, 1, func(s *shard) {
		s.viewSeq.Store(1 << 40)
		for range 10 {
			s.enqueue(time.Time{}, "")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		before := s.proposals()
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if n := s.proposals() - before; n != 0 {
			t.Errorf("%d ops were proposed in six idle hours", n)
		}
	})
}

func TestTheFeedIsTrimmedBehindTheView(t *testing.T) {
	inShard(t, 8, func(s *shard) {
		for range 20 {
			s.enqueue(time.Time{}, "")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if first := s.store.Head().GetFeedFirstSeq(); first > 1 {
			t.Errorf("the feed was trimmed to %d before the view had read it", first)
		}
		// The view catches up while the feed stands still.
		s.viewSeq.Store(s.store.Head().GetFeedNextSeq())
		time.Sleep(2 * trimEvery)
		synctest.Wait()
		head := s.store.Head()
		if kept := head.GetFeedNextSeq() - head.GetFeedFirstSeq(); kept > 8+8/trimSlack {
			t.Errorf("%d events are kept", kept)
		}
	})
}

func TestTrimTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                                     string
		first, next, keep, viewSeq, within, want uint64
	}{
		{"within what is kept", 1, 11, 10, 11, 1, 1},
		{"within the slack", 1, 13, 10, 13, 1, 1},
		{"beyond the slack", 1, 14, 10, 14, 1, 4},
		{"the view is behind", 1, 100, 10, 30, 1, 30},
		{"the view is behind the first", 50, 100, 10, 30, 50, 50},
		{"the view is behind what fits", 1, 100, 10, 30, 60, 60},
		{"what is kept does not fit", 1, 100, 10, 100, 95, 95},
		{"so does little", 1, 5, 10, 5, 3, 3},
	} {
		if got := trimTo(c.first, c.next, c.keep, c.viewSeq, c.within); got != c.want {
			t.Errorf("%s: trimTo(%d, %d, %d, %d, %d) = %d, want %d", c.name, c.first, c.next, c.keep, c.viewSeq, c.within, got, c.want)
		}
	}
}

// The feed waits for a view that lags until it reaches its bound in bytes.
func TestTheFeedIsBoundInBytes(t *testing.T) {
	const most = 2000
	inShardOf(t, Config{FeedKeep: 8, FeedBytes: most, UsageKeep: 1 << 40}, func(s *shard) {
		for s.store.Head().FeedHeld() <= most {
			if first := s.store.Head().GetFeedFirstSeq(); first != 1 {
				t.Fatalf("of %d bytes the feed was trimmed to %d", s.store.Head().FeedHeld(), first)
			}
			s.enqueue(time.Time{}, "")
		}
		time.Sleep(2 * trimEvery)
		synctest.Wait()
		head := s.store.Head()
		if head.FeedHeld() > most || head.FeedHeld() < most/2 || head.GetFeedFirstSeq() == 1 {
			t.Errorf("the feed holds %d bytes from %d on", head.FeedHeld(), head.GetFeedFirstSeq())
		}
	})
}

func TestARefusalIsTriedAgainWithGrowingDelay(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		refused := error(api.Errorf(api.Overloaded, "busy"))
		s.refuse.Store(&refused)
		due := time.Now().Add(time.Minute)
		id := s.enqueue(due, "")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := s.proposals(); n < 5 || n > 80 {
			t.Errorf("%d tries in a minute", n)
		}
		s.refuse.Store(nil)
		time.Sleep(maxBackoff)
		synctest.Wait()
		s.is(id, job.Pending)
	})
}

func TestAFailureEndsTheDuties(t *testing.T) {
	inShard(t, 100, func(s *shard) {
		broken := errors.New("the disk is gone")
		s.refuse.Store(&broken)
		s.enqueue(time.Now().Add(time.Minute), "")
		time.Sleep(time.Minute)
		if err := <-s.ended; !errors.Is(err, broken) {
			t.Errorf("Run ended with %v", err)
		}
	})
}
