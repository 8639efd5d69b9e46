package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

const (
	killProducers = 8
	killWorkers   = 8
	killQueue     = "kill"
	killLease     = 2   // seconds: short, so that abandoned jobs come back soon
	killEnqueues  = 300 // acknowledged between two kills
	killAttempts  = 100 // more than the kills can cost a job
	killTimeout   = 3 * time.Minute
)

// promises holds the promises that the server has made to its clients.
type promises struct {
	mu       sync.Mutex
	enqueued map[string]bool // acknowledged enqueues
	acked    map[string]int  // acknowledged acks: the attempt each was for
	broken   []string
	count    atomic.Int64 // all acknowledged enqueues
}

func (b *promises) enqueue(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueued[id] = true
	b.count.Add(1)
}

func (b *promises) ack(id string, attempt int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked[id] = attempt
}

// fetched checks a delivery against the acks: a later attempt of an acknowledged job means an undone ack.
// (The same or an earlier attempt means that a worker was slow to record it.)
func (b *promises) fetched(id string, attempt int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if acked, ok := b.acked[id]; ok && attempt > acked {
		b.broken = append(b.broken, fmt.Sprintf("%s was acknowledged as done in attempt %d and fetched again as attempt %d", id, acked, attempt))
	}
}

// outstanding returns the acknowledged enqueues without an acknowledged ack.
func (b *promises) outstanding() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for id := range b.enqueued {
		if _, ok := b.acked[id]; !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// done reports whether every acknowledged enqueue is completed. It asks the node about jobs without an
// acknowledged ack, because the answer may have died with the process.
func (b *promises) done(ctx context.Context, c *client.Client) bool {
	for _, id := range b.outstanding() {
		if job, err := c.Job(ctx, id, client.Read{}); err != nil || job.State != "completed" {
			return false
		}
	}
	return true
}

// TestKillLosesNothingAcknowledged kills the real binary under load several times, without warning. The
// promises to clients must hold afterwards: every acknowledged enqueue can be fetched, no acknowledged ack is
// undone, leased jobs come back, and the counts are right.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("CORVO_KILLS")); err == nil {
		kills = n
	}
	ctx, cancel := context.WithTimeout(t.Context(), killTimeout+time.Duration(kills)*20*time.Second)
	defer cancel()
	dir := t.TempDir()
	// A small snapshot threshold makes snapshots and log cuts part of the test.
	args := []string{"--data-dir", dir, "--snapshot-threshold", "1048576"}
	p := startServer(t, args...)
	key := adminKey(t, dir)
	var node atomic.Pointer[client.Client]
	node.Store(newClient(t, p.endpoint, key))

	b := &promises{enqueued: map[string]bool{}, acked: map[string]int{}}
	producing, stopProducing := context.WithCancel(ctx)
	defer stopProducing()
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	var producers, workers sync.WaitGroup
	for i := range killProducers {
		producers.Go(func() { produce(producing, &node, b, i) })
	}
	for i := range killWorkers {
		workers.Go(func() { work(working, &node, b, i) })
	}

	for range kills {
		target := b.count.Load() + killEnqueues
		eventually(t, ctx, "acknowledged enqueues", func() bool { return b.count.Load() >= target })
		p.Kill(t)
		p = startServer(t, args...)
		node.Store(newClient(t, p.endpoint, key))
	}
	stopProducing()
	producers.Wait()
	eventually(t, ctx, "every acknowledged job to be done", func() bool { return b.done(ctx, node.Load()) })
	stopWorking()
	workers.Wait()

	verify(t, ctx, node.Load(), b)
	t.Logf("%d kills, %d enqueues acknowledged, %d acks acknowledged", kills, len(b.enqueued), len(b.acked))
}

func produce(ctx context.Context, node *atomic.Pointer[client.Client], b *promises, who int) {
	attempts := killAttempts
	for n := 0; ctx.Err() == nil; n++ {
		res, err := node.Load().Enqueue(ctx, api.EnqueueRequest{
			Queue:        killQueue,
			Payload:      json.RawMessage(fmt.Sprintf(`{"producer":%d,"n":%d}`, who, n)),
			MaxRetries:   &attempts,
			RetryBackoff: "none",
		})
		if err != nil {
			pause(ctx) // the node is down, or the request was cut off: no promise was made
			continue
		}
		b.enqueue(res.JobID)
	}
}

func work(ctx context.Context, node *atomic.Pointer[client.Client], b *promises, who int) {
	wait := 2
	for n := 0; ctx.Err() == nil; n++ {
		c := node.Load()
		job, err := c.Fetch(ctx, api.FetchRequest{
			Queues: []string{killQueue}, WorkerID: fmt.Sprintf("worker-%d", who), Timeout: &wait, LeaseDuration: killLease,
		})
		if err != nil {
			pause(ctx)
			continue
		}
		if job == nil {
			continue
		}
		b.fetched(job.JobID, job.Attempt)
		if n%10 == 0 {
			continue // abandoned: its lease must end and the job come back
		}
		if err := c.Ack(ctx, job.JobID, api.AckRequest{LeaseToken: job.LeaseToken}); err == nil {
			b.ack(job.JobID, job.Attempt)
		}
	}
}

// pause keeps clients from spinning while the node is down.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

func verify(t *testing.T, ctx context.Context, c *client.Client, b *promises) {
	t.Helper()
	for _, broken := range b.broken {
		t.Error(broken)
	}
	for id := range b.enqueued {
		job, err := c.Job(ctx, id, client.Read{})
		if err != nil {
			t.Errorf("%s was acknowledged as enqueued: %v", id, err)
		} else if job.State != "completed" {
			t.Errorf("%s is %s after all was done", id, job.State)
		}
	}
	queue, err := c.Queue(ctx, killQueue, client.Read{})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	for _, job := range searchAll(t, ctx, c, killQueue) {
		counts[job.State]++
	}
	for state, counted := range map[string]int64{
		"pending": queue.Pending, "active": queue.Active, "completed": queue.Completed,
		"dead": queue.Dead, "retrying": queue.Retrying, "scheduled": queue.Scheduled,
	} {
		if counts[state] != counted {
			t.Errorf("the queue counts %d %s jobs, a search finds %d", counted, state, counts[state])
		}
	}
	if found := counts["completed"]; found < int64(len(b.acked)) {
		t.Errorf("%d acks were acknowledged, %d jobs are completed", len(b.acked), found)
	}
}

// searchAll follows the cursor to the end.
func searchAll(t *testing.T, ctx context.Context, c *client.Client, queue string) []api.Job {
	t.Helper()
	var all []api.Job
	limit := 1000
	req := api.SearchRequest{SearchFilter: api.SearchFilter{Queue: queue}, Limit: &limit}
	for {
		page, err := c.Search(ctx, req, client.Read{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Jobs...)
		if !page.HasMore {
			return all
		}
		req.Cursor = page.Cursor
	}
}
