//go:build unix

package perf_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// payload has 200 bytes, like the payloads of the reference figures.
var payload = []byte(fmt.Sprintf(`{"to":"user@example.com","body":"%0166d"}`, 0))

// BenchmarkInProcess measures the whole path without HTTP: the enqueue, fetch and ack of one job. Beside it
// runs raft alone with the same log store and the same bytes. The figures are those of "In process" in
// docs/benchmarks.md.
func BenchmarkInProcess(b *testing.B) {
	for _, callers := range []int{1, 32, 512} {
		b.Run(fmt.Sprintf("lifecycle/callers=%d", callers), func(b *testing.B) {
			c := openCell(b)
			drive(b, callers, "jobs", func(caller int) error { return lifecycle(c, caller) })
			reportLag(b, c)
		})
		b.Run(fmt.Sprintf("bare-raft/callers=%d", callers), func(b *testing.B) {
			r, ops := openRafts(b, ourTransports(b, 1)), lifecycleBytes(b)
			drive(b, callers, "jobs", func(int) error { return commitBytes(r, ops) })
		})
	}
}

// BenchmarkBacklog measures the same with many jobs waiting in the queues. A fetch takes the oldest, so the
// backlog keeps its depth. docs/benchmarks.md tells how to run it and has no figure of it.
func BenchmarkBacklog(b *testing.B) {
	for _, pending := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			c := openCell(b)
			fill(b, c, pending)
			b.Run("callers=512", func(b *testing.B) {
				drive(b, 512, "jobs", func(caller int) error { return lifecycle(c, caller) })
				reportLag(b, c)
			})
		})
	}
}

// BenchmarkCatchUp measures how a view catches up that lacks the whole lifecycles of 512 callers. Alone, it
// measures the processor time of the process and the time for each job until the view is current. Beside the
// callers, who go on, it measures how many jobs the view writes for each job of theirs. An op is a job.
func BenchmarkCatchUp(b *testing.B) {
	behind := func(b *testing.B) (c *cell.Cell, l *load, letGo func()) {
		dir := b.TempDir()
		c = openCellIn(b, dir)
		letGo = hangView(b, dir, c)
		l = startLoad(512, func(caller int) error { return lifecycle(c, caller) })
		for l.done.Load() < int64(b.N) {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(0, "ns/op")
		return c, l, letGo
	}
	b.Run("alone", func(b *testing.B) {
		c, l, letGo := behind(b)
		l.stop(b)
		index := uint64(c.Applied())
		letGo()
		begun, used := time.Now(), cpuTime(b)
		if err := c.View().Wait(b.Context(), index); err != nil {
			b.Fatal(err)
		}
		jobs := float64(l.done.Load())
		b.ReportMetric(float64(time.Since(begun).Microseconds())/jobs, "µs/job")
		b.ReportMetric(float64((cpuTime(b)-used).Microseconds())/jobs, "cpu-µs/job")
	})
	b.Run("beside the load", func(b *testing.B) {
		c, l, letGo := behind(b)
		seq := func() uint64 { seq, _ := c.View().Cursor(); return seq }
		hung := seq()
		letGo()
		for seq() == hung {
			time.Sleep(time.Millisecond)
		}
		from, done := seq(), l.done.Load()
		for seq() < from+uint64(b.N) { // a job makes three events, so this is a third of the jobs
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(seq()-from)/3/float64(max(1, l.done.Load()-done)), "view-jobs/job")
		l.stop(b)
	})
}

// fill enqueues jobs and waits until the view has them.
func fill(b *testing.B, c *cell.Cell, jobs int) {
	b.Helper()
	for n, queue := 0, 0; n < jobs; n, queue = n+job.MaxEnqueueJobs, queue+1 {
		all := &op.Enqueue{Meta: &op.Meta{}}
		for range job.MaxEnqueueJobs {
			one := enqueueOp(c.NewID(benchQueue(queue)), benchQueue(queue))
			all.Jobs, all.Meta.Ids = append(all.Jobs, one.Jobs...), append(all.Meta.Ids, one.Meta.Ids...)
		}
		if _, _, err := cell.Propose[*op.EnqueueResult](b.Context(), c, all); err != nil {
			b.Fatal(err)
		}
	}
	for target := uint64(c.Applied()); ; time.Sleep(10 * time.Millisecond) {
		if _, index := c.View().Cursor(); index >= target {
			return
		}
	}
}

func openCell(t testing.TB) *cell.Cell {
	t.Helper()
	return openCellIn(t, t.TempDir())
}

func benchQueue(caller int) string { return fmt.Sprintf("bench-%d", caller%8) }

func enqueueOp(id job.ID, queue string) *op.Enqueue {
	return &op.Enqueue{
		Meta: &op.Meta{Ids: [][]byte{id[:]}},
		Jobs: []*op.NewJob{{
			Queue:    queue,
			Payload:  &job.Blob{Data: payload},
			Priority: job.Normal,
			Retry:    &job.Retry{MaxAttempts: 3, Backoff: job.BackoffExponential, BaseDelayMs: 5000, MaxDelayMs: 600000},
		}},
	}
}

func fetchOp(seed []byte, queue string) *op.Fetch {
	return &op.Fetch{Meta: &op.Meta{LeaseSeed: seed}, Queues: []string{queue}, Count: 1, WorkerId: "worker", LeaseMs: 60_000}
}

func ackOp(l *op.Leased) *op.Ack {
	return &op.Ack{Meta: &op.Meta{}, Items: []*op.AckItem{{
		Proof:  &op.LeaseProof{Id: l.GetId(), Token: l.GetLeaseToken()},
		Result: &job.Blob{Data: []byte(`{"sent":true}`)},
	}}}
}

func lifecycle(c *cell.Cell, caller int) error {
	queue := benchQueue(caller)
	return lifecycleOf(c, enqueueOp(c.NewID(queue), queue), queue)
}

// lifecycleOf enqueues a job, fetches a job of its queue and acks that.
func lifecycleOf(c *cell.Cell, o *op.Enqueue, queue string) error {
	ctx := context.Background()
	if _, _, err := cell.Propose[*op.EnqueueResult](ctx, c, o); err != nil {
		return err
	}
	fetched, _, err := cell.Propose[*op.FetchResult](ctx, c, fetchOp(c.LeaseSeed(), queue))
	if err != nil {
		return err
	}
	if len(fetched.GetJobs()) != 1 {
		return fmt.Errorf("fetched %d jobs", len(fetched.GetJobs()))
	}
	_, _, err = cell.Propose[*op.AckResult](ctx, c, ackOp(fetched.GetJobs()[0]))
	return err
}

// reportLag reports the view's lag at the end.
func reportLag(b *testing.B, c *cell.Cell) {
	_, age := c.View().Lag()
	b.ReportMetric(float64(age.Milliseconds()), "view-lag-ms")
}

// lifecycleBytes returns the three ops of a lifecycle as the log would carry them.
func lifecycleBytes(t testing.TB) (all [][]byte) {
	t.Helper()
	id := job.NewID(time.Now().UnixMilli(), "bench-0", job.Entropy{})
	for _, o := range []interface{ MarshalVT() ([]byte, error) }{
		enqueueOp(id, "bench-0"),
		fetchOp(make([]byte, 16), "bench-0"),
		ackOp(&op.Leased{Id: id[:], LeaseToken: make([]byte, 16)}),
	} {
		data, err := o.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}
