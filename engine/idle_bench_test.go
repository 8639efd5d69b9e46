package engine_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
)

// idleGroups is the number of groups in BenchmarkIdleGroups.
const idleGroups = 60

// BenchmarkIdleGroups measures a second of three processes with groups of three members each that have nothing to do,
// over TCP and TLS: the time of the processors, and the writes to sockets and their bytes.
func BenchmarkIdleGroups(b *testing.B) {
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
			cpu, writes, bytes := processorTime(), w.writes.Load(), w.bytes.Load()
			for b.Loop() {
				time.Sleep(time.Second)
			}
			per := func(n int64) float64 { return float64(n) / float64(b.N) }
			b.ReportMetric(per((processorTime() - cpu).Milliseconds()), "cpu-ms/s")
			b.ReportMetric(per(w.writes.Load()-writes), "writes/s")
			b.ReportMetric(per(w.bytes.Load()-bytes)/1e3, "KB/s")
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
	for range 16 {
		working.Go(func() {
			for n := range next {
				w.foundOne(n)
			}
		})
	}
	for n := range idleGroups {
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
