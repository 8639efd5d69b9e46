package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
)

// benchBytes is the size of one op, about that of a small job.
const benchBytes = 300

var callers = []int{1, 32, 512}

// BenchmarkPropose measures the engine with a machine that does nothing. It reports the ops per entry,
// because they show the effect of batching.
func BenchmarkPropose(b *testing.B) {
	for _, flight := range []int{1, 2, 3} {
		for _, n := range callers {
			b.Run(fmt.Sprintf("flight=%d/callers=%d", flight, n), func(b *testing.B) {
				benchPropose(b, n, flight)
			})
		}
	}
}

func benchPropose(b *testing.B, n, flight int) {
	m := &noop{}
	g, err := engine.Open(engine.Config{
		Dir: b.TempDir(), Group: "bench", Machine: m, StartTerm: startTerm, Logger: quiet(),
		Tuning: engine.Tuning{Limits: pipeline.Limits{InFlight: flight}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := g.Close(b.Context()); err != nil {
			b.Error(err)
		}
	}()
	if err := g.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	proposed := add(string(make([]byte, benchBytes)))
	b.ReportAllocs()
	b.ResetTimer()
	before := m.entries.Load()
	run(b, n, func() error {
		_, _, err := engine.Propose[any](context.Background(), g, proposed)
		return err
	})
	b.ReportMetric(float64(b.N)/float64(m.entries.Load()-before), "ops/entry")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.StopTimer()
}

// BenchmarkProposeCluster measures three members over TLS on the loopback, each with a synced log: ops
// proposed on the leader, and through a follower.
func BenchmarkProposeCluster(b *testing.B) {
	c := newCluster(b, nil, 3, func(conf *engine.Config) {
		conf.Machine = &noop{}
		conf.Logs = &raftlog.Factory{Logger: replica.NewLogger(quiet())}
	})
	leader := c.leader()
	for where, m := range map[string]*member{"leader": leader, "follower": c.others(leader)[0]} {
		for _, n := range callers {
			b.Run(fmt.Sprintf("through=%s/callers=%d", where, n), func(b *testing.B) {
				proposed := add(string(make([]byte, benchBytes)))
				b.ReportAllocs()
				run(b, n, func() error {
					_, _, err := engine.Propose[any](context.Background(), m.Group, proposed)
					return err
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			})
		}
	}
}

// BenchmarkBareRaft measures the baseline: raft on the same log store, with each caller appending its own
// entry of the same size.
func BenchmarkBareRaft(b *testing.B) {
	for _, n := range callers {
		b.Run(fmt.Sprintf("callers=%d", n), func(b *testing.B) { benchBareRaft(b, n) })
	}
}

func benchBareRaft(b *testing.B, n int) {
	log, err := (&raftlog.Factory{Logger: replica.NewLogger(quiet())}).Open(b.TempDir(), raftlog.WAL)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	address, transport := raft.NewInmemTransport("one")
	led := make(chan bool, 1)
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger, conf.NotifyCh, conf.BatchApplyCh = "one", replica.NewLogger(quiet()), led, true
	snaps := raft.NewDiscardSnapshotStore()
	members := raft.Configuration{Servers: []raft.Server{{ID: "one", Address: address}}}
	if err := raft.BootstrapCluster(conf, log, log, snaps, transport, members); err != nil {
		b.Fatal(err)
	}
	r, err := raft.NewRaft(conf, bareFSM{}, log, log, snaps, transport)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Shutdown().Error() }()
	<-led
	data := make([]byte, benchBytes)
	b.ReportAllocs()
	b.ResetTimer()
	run(b, n, func() error { return r.Apply(data, 0).Error() })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.StopTimer()
}

// run spreads b.N calls of f over n goroutines.
func run(b *testing.B, n int, f func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	failed := make(chan error, n)
	for range n {
		go func() {
			var err error
			for err == nil && left.Add(-1) >= 0 {
				err = f()
			}
			failed <- err
		}()
	}
	for range n {
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// noop is a machine that only records its position.
type noop struct {
	entries atomic.Int64
	at      atomic.Pointer[entry.Applied]
	members atomic.Pointer[[]byte]
	since   atomic.Uint64 // index of members in the log
}

func (m *noop) Applied() entry.Applied {
	if at := m.at.Load(); at != nil {
		return *at
	}
	return entry.Applied{}
}

func (m *noop) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	m.at.Store(&at)
	m.entries.Add(1)
	return make([]any, len(e.Ops)), nil
}

func (m *noop) Configure(at entry.Applied, configuration []byte) error {
	m.at.Store(&at)
	m.members.Store(&configuration)
	m.since.Store(at.Index)
	return nil
}

func (m *noop) Configuration() ([]byte, uint64) {
	if c := m.members.Load(); c != nil {
		return *c, m.since.Load()
	}
	return nil, 0
}

func (m *noop) LastClock() int64              { return 0 }
func (m *noop) Flush() error                  { return nil }
func (m *noop) Image() (replica.Image, error) { return nil, io.ErrUnexpectedEOF }
func (m *noop) Restore(image.Source) error    { return io.ErrUnexpectedEOF }

type bareFSM struct{}

func (bareFSM) Apply(*raft.Log) any                 { return nil }
func (bareFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, io.ErrUnexpectedEOF }
func (bareFSM) Restore(io.ReadCloser) error         { return io.ErrUnexpectedEOF }
