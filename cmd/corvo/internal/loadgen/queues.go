package loadgen

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

const (
	// A request that fills a backlog has at most backlogJobs jobs, and at most backlogBytes of payloads
	// unless a single one is larger, because every server accepts that much. backlogLines such requests run
	// at the same time.
	backlogJobs  = 500
	backlogBytes = 1 << 20
	backlogLines = 8

	// removeFor is how long the server may take to remove the run's queues.
	removeFor   = time.Minute
	removeEvery = 50 * time.Millisecond
	// settleFor is how long the server's view may take to contain a backlog.
	settleFor = 2 * time.Minute
)

// queueNames returns n names that no other run has.
func queueNames(n int) []string {
	run := strings.ToLower(rand.Text()[:12])
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("bench.%s.%d", run, i)
	}
	return all
}

// prepare creates the queues and their backlogs. It also finds out, before the measurement begins, whether
// the server is reachable and accepts the key.
func (r *run) prepare(ctx context.Context) error {
	r.backlogs = make([]backlog, len(r.queues))
	for i, queue := range r.queues {
		r.made++     // counted first, because the queue may exist even after an error
		if !r.Keep { // the first jobs create queues that are kept, so that a worker's key is enough
			// An interrupt does not cancel the request, because remove would miss a queue that the server
			// creates later.
			if _, err := r.api.PutQueue(context.WithoutCancel(ctx), queue, api.PutQueueRequest{}); err != nil {
				return fmt.Errorf("create queue %s: %w", queue, err)
			}
		}
		if r.Workload != Work {
			continue
		}
		jobs := r.preloads(i)
		r.backlogs[i].give(jobs)
		if err := r.preload(ctx, queue, jobs); err != nil {
			return fmt.Errorf("fill queue %s: %w", queue, err)
		}
	}
	if r.Workload == Work {
		return r.settle(ctx)
	}
	return nil
}

// settle waits until the server's view contains the backlogs, so that the measurement covers the work and not
// the rest of the enqueues. If the key may not read, settle does not wait.
func (r *run) settle(ctx context.Context) error {
	until := time.Now().Add(settleFor)
	for _, queue := range r.queues {
		for {
			_, err := r.api.Queue(ctx, queue, client.Read{Strong: true})
			code := api.CodeOf(err)
			if err == nil || code == api.Forbidden {
				break
			}
			if code != api.ViewBehind || time.Now().After(until) { // the server has already waited some seconds
				return fmt.Errorf("wait for the jobs of queue %s: %w", queue, err)
			}
		}
	}
	return nil
}

// preload enqueues the jobs of a backlog.
func (r *run) preload(ctx context.Context, queue string, jobs int) error {
	requests := make(chan int)
	errs := make([]error, backlogLines)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	for i := range backlogLines {
		running.Go(func() {
			maker := &caller{run: r, queue: queue, payloads: newPayloads(r.Payload, uint64(i))}
			for n := range requests {
				if _, err := r.api.EnqueueBatch(ctx, maker.make(r.base, n)); err != nil {
					errs[i] = err
					cancel()
					return
				}
			}
		})
	}
	each := max(min(backlogJobs, backlogBytes/r.Payload), 1)
	for jobs > 0 && ctx.Err() == nil {
		n := min(each, jobs)
		select {
		case requests <- n:
			jobs -= n
		case <-ctx.Done():
		}
	}
	close(requests)
	running.Wait()
	for _, err := range errs {
		// The first error has cancelled the other requests.
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return ctx.Err()
}

// filled returns the queues that received jobs. Only those exist, because jobs create them.
func (r *run) filled(all []*caller) []string {
	queues := []string{}
	for i, queue := range r.queues {
		if r.preloads(i) > 0 || slices.ContainsFunc(all, func(c *caller) bool { return c.queue == queue && c.filled }) {
			queues = append(queues, queue)
		}
	}
	return queues
}

// preloads returns the number of jobs that a queue has before the load begins.
func (r *run) preloads(queue int) int {
	if r.Workload != Work {
		return 0
	}
	jobs := r.Jobs / len(r.queues)
	if queue < r.Jobs%len(r.queues) {
		jobs++
	}
	return jobs
}

// remove deletes the queues and waits until they are gone, so that the deletion does not disturb the next
// run. An interrupt does not stop it.
func (r *run) remove() error {
	if r.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeFor)
	defer cancel()
	for _, queue := range r.queues[:r.made] {
		if err := r.api.DeleteQueue(ctx, queue, false); err != nil && api.CodeOf(err) != api.NotFound {
			return fmt.Errorf("delete queue %s: %w", queue, err)
		}
	}
	for _, queue := range r.queues[:r.made] {
		for {
			_, err := r.api.Queue(ctx, queue, client.Read{})
			if api.CodeOf(err) == api.NotFound {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("queue %s still exists after %v; the server continues to delete it", queue, removeFor)
			}
			pause(ctx, removeEvery)
		}
	}
	return nil
}
