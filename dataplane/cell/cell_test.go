package cell

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/engine"
)

// The tests of this package use these words. openTest opens a cell that is the only member of its group and
// waits until it leads. enqueue and fetch propose one op at a cell, as a handler does. The tests run in real
// time, because the log syncs to a real disk. eventually polls a condition for up to conditionTimeout, and no
// test relies on an op that takes less than a given time.

// conditionTimeout bounds the wait for a condition on a busy machine.
const conditionTimeout = 60 * time.Second

func openTest(t *testing.T, cfg Config) *Cell {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Group, cfg.NodeID, cfg.Logger = "test/0", "node-1", slog.New(slog.DiscardHandler)
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { c.Close(context.Background()) }) })
	ctx, cancel := context.WithTimeout(t.Context(), conditionTimeout)
	defer cancel()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func enqueue(t *testing.T, c *Cell, queue string, payload []byte, due time.Time) job.ID {
	t.Helper()
	id, err := tryEnqueue(t.Context(), c, queue, payload, due)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func tryEnqueue(ctx context.Context, c *Cell, queue string, payload []byte, due time.Time) (job.ID, error) {
	id := c.NewID(queue)
	o := &op.Enqueue{Meta: &op.Meta{Ids: [][]byte{id[:]}}, Jobs: []*op.NewJob{{
		Queue: queue, Payload: &job.Blob{Data: payload}, Retry: &job.Retry{MaxAttempts: 3, Backoff: job.BackoffNone},
	}}}
	if !due.IsZero() {
		o.Jobs[0].ScheduledNs = due.UnixNano()
	}
	_, _, err := Propose[*op.EnqueueResult](ctx, c, o)
	return id, err
}

func fetch(t *testing.T, c *Cell, queue string, lease time.Duration) []*op.Leased {
	t.Helper()
	got, _, err := Propose[*op.FetchResult](t.Context(), c, &op.Fetch{
		Meta: &op.Meta{LeaseSeed: c.LeaseSeed()}, Queues: []string{queue}, Count: 10, LeaseMs: lease.Milliseconds(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return got.Jobs
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(conditionTimeout)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, conditionTimeout)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// notYetDue enqueues a job with a time, and checks that a fetch before that time does not get it. If the
// machine is too slow to fetch before that time, it tries again with a later one, in another queue.
func notYetDue(t *testing.T, c *Cell) (queue string, due time.Time) {
	t.Helper()
	for wait := 300 * time.Millisecond; wait < conditionTimeout; wait *= 4 {
		queue, due = fmt.Sprint("in-", wait), time.Now().Add(wait)
		enqueue(t, c, queue, []byte("{}"), due)
		got := fetch(t, c, queue, time.Minute)
		if !time.Now().Before(due) {
			continue
		}
		if len(got) != 0 {
			t.Fatal("fetched before it was due")
		}
		return queue, due
	}
	t.Fatal("the machine is too slow to fetch before the job is due")
	return "", time.Time{}
}

func TestTimersFireWithoutAnybodyAsking(t *testing.T) {
	t.Parallel()
	ready := make(chan string, 100)
	c := openTest(t, Config{OnReady: func(queue string, n int) {
		if n > 0 {
			ready <- queue
		}
	}})
	queue, due := notYetDue(t, c)
	for <-ready != queue {
	}
	if time.Now().Before(due) {
		t.Fatalf("queue %s was ready %v before its time", queue, time.Until(due))
	}
	if len(fetch(t, c, queue, 200*time.Millisecond)) != 1 {
		t.Fatal("not fetchable when due")
	}
	// The lease is not renewed, so the job becomes pending again.
	again := fetch(t, c, queue, time.Minute)
	for ; len(again) == 0; again = fetch(t, c, queue, time.Minute) {
		<-ready
	}
	if len(again) != 1 || again[0].Attempt != 2 {
		t.Fatalf("after its lease ended: %v", again)
	}
}

func TestWhatWasAcknowledgedIsThereAfterReopening(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openTest(t, Config{Dir: dir})
	id := enqueue(t, c, "q", []byte(`{"n":1}`), time.Time{})
	applied := c.Applied()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = openTest(t, Config{Dir: dir})
	if c.Applied() < applied {
		t.Errorf("applied fell from %d to %d", applied, c.Applied())
	}
	payload, err := c.State().Blob(id, job.Payload)
	if err != nil || !bytes.Equal(payload.GetData(), []byte(`{"n":1}`)) {
		t.Errorf("payload %q, %v", payload.GetData(), err)
	}
}

// TestClaimsAreBoundedByWhatIsFetchable checks that with ten jobs and a hundred waiting fetches, ten fetches
// may propose.
func TestClaimsAreBoundedByWhatIsFetchable(t *testing.T) {
	t.Parallel()
	var woken atomic.Int64
	c := openTest(t, Config{OnReady: func(string, int) { woken.Add(1) }})
	for range 10 {
		enqueue(t, c, "q", []byte("{}"), time.Time{})
	}
	var releases []func()
	for range 100 {
		if claimed, release := c.Claim([]string{"unknown", "q"}, 1); claimed > 0 {
			releases = append(releases, release)
		}
	}
	if len(releases) != 10 {
		t.Fatalf("%d of 100 polls may fetch 10 jobs", len(releases))
	}
	if c.Claimable([]string{"q"}) {
		t.Error("claimable although everything is claimed")
	}
	before := woken.Load()
	releases[0]()
	if !c.Claimable([]string{"q"}) || woken.Load() == before {
		t.Error("a claim was given back and nobody was told")
	}
	if claimed, release := c.Claim([]string{"q"}, 512); claimed != 1 {
		t.Errorf("of the claim given back %d jobs can be taken, want 1", claimed)
	} else {
		release()
	}
}

// TestLogAndFeedStayBounded checks that under constant load the log is truncated and the feed trimmed, so
// that neither grows with the traffic.
func TestLogAndFeedStayBounded(t *testing.T) {
	t.Parallel()
	const (
		payloadBytes  = 32 << 10
		jobs          = 5000 // 160 MB through the log
		callers       = 16
		snapshotBytes = 2 << 20
		logBound      = 64 << 20 // snapshot threshold, trailing log and preallocated segments
		feedKeep      = 1000
	)
	dir := t.TempDir()
	c := openTest(t, Config{Dir: dir, Engine: engine.Tuning{SnapshotBytes: snapshotBytes}, FeedKeep: feedKeep})
	payload := []byte(`"` + string(bytes.Repeat([]byte("x"), payloadBytes-2)) + `"`)
	var left, peak atomic.Int64
	left.Store(jobs)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				if _, err := tryEnqueue(t.Context(), c, "q", payload, time.Time{}); err != nil {
					t.Error(err)
					return
				}
				if n%250 == 0 {
					size := dirSize(t, filepath.Join(dir, "raft"))
					for old := peak.Load(); size > old && !peak.CompareAndSwap(old, size); old = peak.Load() {
					}
				}
			}
		})
	}
	group.Wait()
	if peak.Load() > logBound {
		t.Errorf("the log took up to %d MiB, the bound is %d", peak.Load()>>20, logBound>>20)
	}
	eventually(t, "the feed to be trimmed", func() bool {
		head := c.State().Head()
		return head.GetFeedNextSeq()-head.GetFeedFirstSeq() <= feedKeep+feedKeep/4
	})
	t.Logf("%d MB went through a log of at most %d MiB", jobs*payloadBytes/1_000_000, peak.Load()>>20)
}

func dirSize(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // a segment was removed in the meantime
		}
		if info, err := d.Info(); err == nil && !d.IsDir() {
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Error(fmt.Errorf("measure %s: %w", dir, err))
	}
	return total
}
