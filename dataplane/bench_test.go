//go:build unix

package dataplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// The figures of docs/benchmarks.md. Machines are shared and noisy: each
// benchmark runs Corvo and what it is held against in the same run, and only
// their ratio counts.

// payload is 200 bytes, like the reference figures'.
var payload = []byte(fmt.Sprintf(`{"to":"user@example.com","body":"%0166d"}`, 0))

// drive calls fn b.N times from so many goroutines and reports rate, latency and
// the processor time of the whole process, which depends least on what else runs
// on the machine.
func drive(b *testing.B, callers int, unit string, fn func(caller int) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	latencies := make([][]time.Duration, callers)
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	b.ReportAllocs()
	before := cpuTime(b)
	b.ResetTimer()
	for caller := range callers {
		group.Go(func() {
			for left.Add(-1) >= 0 && failed.Load() == nil {
				begin := time.Now()
				if err := fn(caller); err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				latencies[caller] = append(latencies[caller], time.Since(begin))
			}
		})
	}
	group.Wait()
	b.StopTimer()
	used := cpuTime(b) - before
	if err := failed.Load(); err != nil {
		b.Fatal(*err)
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), unit+"/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(used.Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
}

// cpuTime is what the process has used so far, user and system.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// BenchmarkInProcess is the whole path without HTTP: enqueue, fetch and ack of
// one job, beside raft alone with the same log store and the same bytes.
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

// BenchmarkBacklog is the whole path again, with so many jobs waiting in the
// queues: a fetch takes the oldest, so that the backlog stays as deep.
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

// lifecycleOf enqueues a job, fetches one of its queue and acknowledges that.
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

// reportLag reports how long the view is behind at the end.
func reportLag(b *testing.B, c *cell.Cell) {
	_, age := c.View().Lag()
	b.ReportMetric(float64(age.Milliseconds()), "view-lag-ms")
}

// lifecycleBytes are the three ops as the log would carry them.
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

// BenchmarkHTTP is what a client sees on loopback, beside a handler that only
// decodes the request and answers, with the same client.
func BenchmarkHTTP(b *testing.B) {
	for _, clients := range []int{1, 32, 128} {
		b.Run(fmt.Sprintf("enqueue/clients=%d", clients), func(b *testing.B) {
			c := openNode(b)
			drive(b, clients, "requests", func(caller int) error { return enqueueHTTP(c, caller) })
		})
		b.Run(fmt.Sprintf("lifecycle/clients=%d", clients), func(b *testing.B) {
			c := openNode(b)
			drive(b, clients, "jobs", func(caller int) error { return lifecycleHTTP(c, caller) })
		})
		b.Run(fmt.Sprintf("bare-handler/clients=%d", clients), func(b *testing.B) {
			c := openBare(b)
			drive(b, clients, "requests", func(caller int) error { return enqueueHTTP(c, caller) })
		})
	}
}

// BenchmarkFsync is the disk's part of an acknowledged write: 4 KiB and a sync
// on a growing file.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	drive(b, 1, "syncs", func(int) error {
		if _, err := f.Write(block); err != nil {
			return err
		}
		return f.Sync()
	})
}

func openNode(b *testing.B) *client.Client {
	b.Helper()
	dir := b.TempDir()
	node, err := dataplane.Open(b.Context(), dataplane.Config{DataDir: dir, NodeID: "bench", Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { node.Close(context.Background()) })
	return dial(b, node.Handler(), node.FirstKey)
}

func openBare(b *testing.B) *client.Client {
	b.Helper()
	return dial(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req api.EnqueueRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(api.EnqueueResponse{JobID: "job_0", Status: "pending"})
	}), "key")
}

func dial(b *testing.B, handler http.Handler, key string) *client.Client {
	b.Helper()
	srv := httptest.NewServer(handler)
	b.Cleanup(srv.Close)
	c, err := client.New(srv.URL, key, client.WithRetries(0))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func enqueueHTTP(c *client.Client, caller int) error {
	_, err := c.Enqueue(context.Background(), api.EnqueueRequest{Queue: benchQueue(caller), Payload: payload})
	return err
}

func lifecycleHTTP(c *client.Client, caller int) error {
	if err := enqueueHTTP(c, caller); err != nil {
		return err
	}
	fetched, err := c.Fetch(context.Background(), api.FetchRequest{Queues: []string{benchQueue(caller)}, WorkerID: "worker"})
	if err != nil {
		return err
	}
	if fetched == nil {
		return fmt.Errorf("nothing to fetch")
	}
	return c.Ack(context.Background(), fetched.JobID, api.AckRequest{LeaseToken: fetched.LeaseToken, Result: json.RawMessage(`{"sent":true}`)})
}
