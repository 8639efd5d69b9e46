package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

const (
	queue = "chaos"
	// lease outlasts every test, so that a job that is delivered twice was leased twice at the
	// same time.
	lease = 3600 // seconds
	// requestLimit is the time after which an answer counts as lost.
	requestLimit = 3 * time.Second
	ackTries     = 1000
)

// target is a set of processes that serve one namespace.
type target interface {
	Size() int // number of the processes that serve
	Client(i int) *client.Client
	await(t testing.TB, what string, holds func(ctx context.Context) bool)
}

// Load is a set of clients that enqueue, fetch, ack and read at all processes of a target, with
// the history of their requests and answers.
type Load struct {
	History *History

	target  target
	ctx     context.Context // ends with Finish
	gate    sync.RWMutex    // held for writing while the load is paused
	acks    atomic.Int64    // acknowledged enqueues and acks, the measure of progress
	gap     gap
	stop    context.CancelFunc
	running sync.WaitGroup
}

// gap is the longest time between two acknowledged enqueues.
type gap struct {
	mu   sync.Mutex
	last time.Time
	most time.Duration
}

func (g *gap) note(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.last.IsZero() {
		g.most = max(g.most, now.Sub(g.last))
	}
	g.last = now
}

// skip leaves out the time until the next acknowledged enqueue.
func (g *gap) skip() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = time.Time{}
}

// take returns the longest gap since the last call, up to now.
func (g *gap) take() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.most
	g.most = 0
	return most
}

// StartLoad starts the given number of producers, of workers and of readers. Finish ends it.
func StartLoad(t testing.TB, at target, clients int) *Load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &Load{History: newHistory(), target: at, ctx: ctx, stop: stop}
	for i := range clients {
		l.run(func(ctx context.Context, n int) { l.produce(ctx, i, n) })
		l.run(func(ctx context.Context, _ int) { l.work(ctx, clients+i) })
	}
	l.run(func(ctx context.Context, _ int) { l.read(ctx, 2*clients) })
	return l
}

// run repeats the step of a client until Finish, except while the load is paused.
func (l *Load) run(step func(ctx context.Context, n int)) {
	l.running.Go(func() {
		for n := 0; l.ctx.Err() == nil; n++ {
			l.gate.RLock()
			step(l.ctx, n)
			l.gate.RUnlock()
		}
	})
}

// pause waits until no request of the load is under way, and calls do before the next one.
func (l *Load) pause(do func()) {
	l.gate.Lock()
	defer l.gate.Unlock()
	do()
	l.gap.skip()
}

// any returns the client of a random process. Each request draws again, because some processes are
// down.
func (l *Load) any() *client.Client { return l.target.Client(rand.IntN(l.target.Size())) }

// produce enqueues the n-th job of a producer.
func (l *Load) produce(ctx context.Context, who, n int) {
	call := l.History.now()
	answer, err := l.any().Enqueue(ctx, api.EnqueueRequest{
		Queue: queue, Payload: json.RawMessage(fmt.Sprintf(`{"producer":%d,"n":%d}`, who, n)),
	})
	switch {
	case err == nil:
		l.History.add(answer.JobID, who, call, step{what: enqueued, known: true})
		l.gap.note(time.Now())
		l.acks.Add(1)
	case !refused(err):
		l.History.count(&l.History.lostEnq)
		pause(ctx)
	default:
		pause(ctx)
	}
}

// work fetches a job, if there is one, and acks it.
func (l *Load) work(ctx context.Context, who int) {
	wait, name := 1, fmt.Sprintf("worker-%d", who)
	call := l.History.now()
	job, err := l.any().Fetch(ctx, api.FetchRequest{Queues: []string{queue}, WorkerID: name, Timeout: &wait, LeaseDuration: lease})
	switch {
	case err != nil:
		if !refused(err) {
			l.History.count(&l.History.lostFetch)
		}
		pause(ctx)
	case job != nil:
		if bytes.Equal(job.Payload, []byte(strangersPayload)) {
			l.History.violate("a worker got job %s of another namespace", job.JobID)
		}
		l.History.add(job.JobID, who, call, step{what: fetched, known: true})
		l.History.deliver(job.JobID, name)
		l.ack(ctx, who, job)
	}
}

// ack repeats an ack, with the usage of one token, until it is answered, as a worker does.
func (l *Load) ack(ctx context.Context, who int, job *api.FetchedJob) {
	for range ackTries {
		call := l.History.now()
		err := l.any().Ack(context.WithoutCancel(ctx), job.JobID, api.AckRequest{LeaseToken: job.LeaseToken, Usage: &api.ReportedUsage{InputTokens: 1}})
		switch {
		case err == nil:
			l.History.add(job.JobID, who, call, step{what: acked, known: true})
			l.acks.Add(1)
			return
		case api.CodeOf(err) == api.LeaseLost || api.CodeOf(err) == api.NotFound:
			l.History.violate("the ack of job %s, whose lease lives, was refused: %v", job.JobID, err)
			return
		case !refused(err):
			l.History.count(&l.History.lostAck)
			l.History.add(job.JobID, who, call, step{what: acked})
		}
		pause(context.WithoutCancel(ctx))
	}
}

// read reads known jobs with strong consistency at any node. Such a read must show every
// write that was acknowledged before it.
func (l *Load) read(ctx context.Context, who int) {
	known := l.History.with(enqueued)
	if len(known) == 0 {
		pause(ctx)
		return
	}
	// New jobs, because they still change.
	from := max(0, len(known)-200)
	for range 20 {
		id := known[from+rand.IntN(len(known)-from)]
		call := l.History.now()
		job, err := l.any().Job(ctx, id, client.Read{Strong: true})
		switch {
		case err == nil:
			l.History.add(id, who, call, step{what: looked, known: true, state: job.State})
		case api.CodeOf(err) == api.NotFound:
			l.History.violate("job %s was acknowledged, and a strong read finds no such job", id)
		default:
			pause(ctx)
		}
	}
}

// refused reports whether an error proves that the server did nothing. After any other
// error the request may have been done.
func refused(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code.Status() < 500
}

// pause keeps clients from spinning while nodes are down.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5*time.Millisecond + rand.N(20*time.Millisecond)):
	}
}

// AwaitProgress waits for the given number of further acknowledged writes.
func (l *Load) AwaitProgress(t testing.TB, writes int64) {
	t.Helper()
	target := l.acks.Load() + writes
	l.target.await(t, fmt.Sprintf("%d acknowledged writes more", writes), func(context.Context) bool { return l.acks.Load() >= target })
}

// Finish ends the load after all nodes have recovered, and compares the clients' answers
// with the state of the cluster.
func (l *Load) Finish(t testing.TB) {
	t.Helper()
	l.stop()
	l.running.Wait()
	h := l.History
	for _, what := range h.wrong {
		t.Error(what)
	}
	for _, bad := range h.Linearizable() {
		t.Errorf("no order of the requests explains what clients of a job were told: %s", bad)
	}
	l.recount(t)
	t.Logf("%d jobs acknowledged, %d acks acknowledged; answers lost: %d enqueues, %d fetches, %d acks",
		len(h.with(enqueued)), len(h.with(acked)), h.lostEnq, h.lostFetch, h.lostAck)
}

// recount checks every job on every node at the end: acknowledged jobs exist, acknowledged
// acks stand, and the number of jobs is possible.
func (l *Load) recount(t testing.TB) {
	t.Helper()
	enq, ack := l.History.with(enqueued), l.History.with(acked)
	final := map[string]string{}
	for i, id := range append(enq, ack...) {
		node := i % l.target.Size()
		l.target.await(t, "answer of a node", func(ctx context.Context) bool {
			job, err := l.target.Client(node).Job(ctx, id, client.Read{Strong: true})
			if api.CodeOf(err) == api.NotFound {
				t.Errorf("job %s was acknowledged; node %d has no such job", id, node)
				return true
			}
			final[id] = job.State
			return err == nil
		})
	}
	for _, id := range ack {
		if final[id] != "completed" {
			t.Errorf("the ack of job %s was acknowledged; it is %s", id, final[id])
		}
	}
	stuck := 0
	for _, state := range final {
		if state == "active" {
			stuck++
		}
	}
	if most := l.History.lostFetch; stuck > most {
		t.Errorf("%d jobs are leased to nobody; %d fetches were not answered", stuck, most)
	}
}
