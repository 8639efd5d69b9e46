package engine_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

var idleGroups = flag.Int("idle.groups", 60, "number of groups in BenchmarkIdleGroups")

const (
	// idleFiles is the number of files that a member keeps open, and spareFiles that of all other files of the process.
	idleFiles  = 5
	spareFiles = 256
	// foundedAtOnce is the number of groups that are founded at the same time. A group waits for its election most of
	// that time.
	foundedAtOnce = 64
)

// BenchmarkIdleGroups measures a second of three nodes with groups of three members each that have nothing to do, over
// TCP and TLS: the time of the processors, the messages, the writes to sockets and their bytes, and the memory, open files
// and goroutines at the end. The nodes share this process. A message is a request of Raft or its answer, and a write
// carries all that are ready at the same time. Elections mean that the processors are too slow for so many groups.
//
//	go test ./engine -run '^$' -bench 'IdleGroups/heartbeat=500ms/commit=250ms' -benchtime 30x -idle.groups=1000 -timeout 30m
func BenchmarkIdleGroups(b *testing.B) {
	if most := (mostFiles(b) - spareFiles) / (3 * idleFiles); *idleGroups > most {
		b.Fatalf("-idle.groups is %d; the limit on open files allows %d: raise it with ulimit -n", *idleGroups, most)
	}
	for _, c := range []struct{ heartbeat, commit time.Duration }{
		{500 * time.Millisecond, 50 * time.Millisecond},  // the defaults
		{500 * time.Millisecond, 250 * time.Millisecond}, // of the hosts of a cloud
		{500 * time.Millisecond, time.Second},
		{time.Second, time.Second},
		{2 * time.Second, time.Second},
	} {
		b.Run(fmt.Sprintf("heartbeat=%v/commit=%v", c.heartbeat, c.commit), func(b *testing.B) {
			w := newIdle(b, engine.Tuning{Heartbeat: c.heartbeat, Election: c.heartbeat, CommitTimeout: c.commit})
			w.found()
			time.Sleep(3 * time.Second) // the leaders have stopped probing new members at once
			requests := countRequests(b)
			cpu, writes, bytes := processorTime(), w.writes.Load(), w.bytes.Load()
			for b.Loop() {
				time.Sleep(time.Second)
			}
			per := func(n int64) float64 { return float64(n) / float64(b.N) }
			b.ReportMetric(per((processorTime() - cpu).Milliseconds()), "cpu-ms/s")
			b.ReportMetric(per(2*(requests.appends.Load()+requests.votes.Load())), "messages/s")
			b.ReportMetric(per(requests.votes.Load()), "votes/s")
			b.ReportMetric(per(w.writes.Load()-writes), "writes/s")
			b.ReportMetric(per(w.bytes.Load()-bytes)/1e3, "KB/s")
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys-m.HeapReleased)/1e6, "MB")
			b.ReportMetric(float64(openFiles(b)), "files")
			b.ReportMetric(float64(runtime.NumGoroutine()), "goroutines")
		})
	}
}

// idle is three processes, each with a member of every group.
type idle struct {
	b             *testing.B
	tuning        engine.Tuning
	ids           []string
	transports    []*transport.Transport
	writes, bytes atomic.Int64
}

func newIdle(b *testing.B, tuning engine.Tuning) *idle {
	w := &idle{b: b, tuning: tuning, ids: []string{"a", "b", "c"}}
	w.tuning.Logs = &raftlog.Factory{SegmentBytes: raftlog.MinSegmentBytes, NoSync: true, Logger: replica.NewLogger(quiet())}
	trust := newAuthority(b)
	for _, id := range w.ids {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		t, err := transport.Open(transport.Config{
			NodeID: id, Listener: counting{listener, w}, Identity: trust.identity(id), Logger: quiet(),
			Dial: func(ctx context.Context, address string) (net.Conn, error) {
				var d net.Dialer
				c, err := d.DialContext(ctx, "tcp", address)
				return counted{c, w}, err
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		w.transports = append(w.transports, t)
		b.Cleanup(func() { _ = t.Close() })
	}
	return w
}

// found founds the groups, each on another process in turn.
func (w *idle) found() {
	var working sync.WaitGroup
	next := make(chan int)
	for range foundedAtOnce {
		working.Go(func() {
			for n := range next {
				w.foundOne(n)
			}
		})
	}
	for n := range *idleGroups {
		next <- n
	}
	close(next)
	working.Wait()
}

func (w *idle) foundOne(n int) {
	dir := w.b.TempDir()
	var first *engine.Group
	var history *entry.Incarnation
	for i := range w.ids {
		at := (n + i) % len(w.ids)
		t := w.transports[at]
		sub := filepath.Join(dir, t.ID())
		c := engine.Config{
			Dir: sub, Group: fmt.Sprintf("test/%d", n), Machine: openMachine(w.b, sub), StartTerm: startTerm, Codec: codec{}, Join: history, Tuning: w.tuning, Logger: quiet(),
		}
		c.Transport = t
		g, err := engine.Open(c)
		if err != nil {
			w.b.Error(err)
			return
		}
		w.b.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // the members close one after another, so that a leader finds nobody to take over
			_ = g.Close(ctx)
		})
		if first == nil {
			first = g
			err = g.Ready(soon(w.b))
			s, _ := g.Status()
			history = &s.Incarnation
		} else if err = first.AddLearner(soon(w.b), t.ID(), t.Address()); err == nil {
			err = first.Promote(soon(w.b), t.ID())
		}
		if err != nil {
			w.b.Error(err)
			return
		}
	}
}

// processorTime returns the time of the processors that this process has taken.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mostFiles returns the number of files that this process may have open.
func mostFiles(b *testing.B) int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		b.Fatal(err)
	}
	return int(min(l.Cur, math.MaxInt32))
}

// openFiles returns the number of files that this process has open.
func openFiles(b *testing.B) int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		b.Fatal(err)
	}
	return len(entries)
}

// requestCount counts the requests of Raft that members handle. It gets them as raft's metrics.
type requestCount struct {
	metrics.BlackholeSink
	appends, votes atomic.Int64
}

// countRequests counts the requests of all members of this process from now on.
func countRequests(b *testing.B) *requestCount {
	c := &requestCount{}
	conf := metrics.DefaultConfig("")
	conf.EnableHostname, conf.EnableRuntimeMetrics, conf.EnableTypePrefix = false, false, false
	if _, err := metrics.NewGlobal(conf, c); err != nil {
		b.Fatal(err)
	}
	return c
}

// AddSampleWithLabels implements metrics.MetricSink. A heartbeat is one of the requests to append.
func (c *requestCount) AddSampleWithLabels(key []string, _ float32, _ []metrics.Label) {
	if len(key) != 3 || key[1] != "rpc" {
		return
	}
	switch key[2] {
	case "appendEntries":
		c.appends.Add(1)
	case "requestVote", "requestPreVote":
		c.votes.Add(1)
	}
}

// counting counts the writes to the connections that it accepts.
type counting struct {
	net.Listener
	w *idle
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return counted{c, l.w}, err
}

type counted struct {
	net.Conn
	w *idle
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.w.writes.Add(1)
	c.w.bytes.Add(int64(n))
	return n, err
}
