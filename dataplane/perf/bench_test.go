//go:build unix

package perf_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// drive calls fn b.N times from a number of goroutines. It reports the rate, the latency and the processor
// time of the whole process, which depends least on the machine's other load.
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

// cpuTime returns the processor time that the process has used so far, user and system.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// BenchmarkFsync measures the disk's part of an acknowledged write: a block of 4 KiB and a sync at the end of
// a growing file. It is the reference of "Over HTTP" in docs/benchmarks.md.
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
