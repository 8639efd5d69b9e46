//go:build unix

package op_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
)

// BenchmarkBacklog enqueues b.N jobs into eight queues, then fetches and acks them like 32 workers with
// frames of 64. The backlog is larger than memory, so the benchmark includes reads from tables, flushes and
// compactions. Steady does the same with a backlog of a few frames. The figure is the processor time of a
// job, because that includes the background work.
func BenchmarkBacklog(b *testing.B) {
	b.Run("backlog", func(b *testing.B) {
		w := newWorld(b)
		l := &load{w: w, queues: 8, frame: 64, together: 4, random: rand.NewPCG(1, 2)}
		b.ReportAllocs()
		b.ResetTimer()
		before := processorTime(b)
		l.run(b.N, func(n int) []op.Op { return l.enqueues(n) })
		if err := w.store.Flush(); err != nil {
			b.Fatal(err)
		}
		made := processorTime(b)
		l.run(b.N, func(n int) []op.Op { return append(l.acks(), l.fetches(n)...) })
		l.apply(l.acks())
		if err := w.store.Flush(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(micros(made-before)/float64(b.N), "enqueue-cpu-µs/job")
		b.ReportMetric(micros(processorTime(b)-made)/float64(b.N), "work-cpu-µs/job")
	})
	b.Run("steady", func(b *testing.B) {
		w := newWorld(b)
		l := &load{w: w, queues: 8, frame: 64, together: 4, random: rand.NewPCG(1, 2)}
		b.ReportAllocs()
		b.ResetTimer()
		before := processorTime(b)
		l.run(b.N, func(n int) []op.Op {
			ops := append(l.acks(), l.enqueues(n)...)
			return append(ops, l.fetches(n)...)
		})
		l.apply(l.acks())
		if err := w.store.Flush(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(micros(processorTime(b)-before)/float64(b.N), "cpu-µs/job")
	})
}

// load makes a benchmark's ops.
type load struct {
	w                       *world
	queues, frame, together int
	made, fetched           int
	random                  *rand.PCG
	leased                  []*op.FetchResult // not acked yet
}

// run applies entries until n jobs are done.
func (l *load) run(n int, ops func(n int) []op.Op) {
	for n > 0 {
		some := min(n, l.frame*l.together)
		l.apply(ops(some))
		n -= some
	}
}

func (l *load) apply(ops []op.Op) {
	l.w.clockNs += int64(time.Millisecond)
	results, err := l.w.try(l.w.encode(op.FeatureLevel, ops...))
	if err != nil {
		l.w.t.Fatal(err)
	}
	l.w.log = nil
	for _, r := range results {
		if f, ok := r.(*op.FetchResult); ok {
			l.leased = append(l.leased, f)
		}
	}
}

// queue returns the queue of the i-th frame.
func (l *load) queue(i int) string { return fmt.Sprint("queue-", i%l.queues) }

func (l *load) enqueues(n int) (ops []op.Op) {
	for ; n > 0; n -= l.frame {
		o := l.w.benchJobs(l.queue(l.made), min(n, l.frame))
		for i, nj := range o.Jobs {
			o.Meta.Ids[i] = l.newID(nj.Queue)
		}
		ops = append(ops, o)
		l.made++
	}
	return ops
}

// newID returns an id like a server's. The ids of one millisecond have no order.
func (l *load) newID(queue string) []byte {
	var entropy job.Entropy
	binary.BigEndian.PutUint64(entropy[1:], l.random.Uint64())
	id := job.NewID(l.w.clockNs/int64(time.Millisecond), queue, entropy)
	return id[:]
}

func (l *load) fetches(n int) (ops []op.Op) {
	for ; n > 0; n -= l.frame {
		ops = append(ops, l.w.fetch(l.queue(l.fetched), uint32(min(n, l.frame))))
		l.fetched++
	}
	return ops
}

func (l *load) acks() (ops []op.Op) {
	for _, f := range l.leased {
		ops = append(ops, ack(f.Jobs...))
	}
	l.leased = l.leased[:0]
	return ops
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// processorTime returns the processor time that the process has used so far, user and system.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
