//go:build unix

package perf_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/image"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/replica"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// This file opens the references of "In process" and "One node and three" in docs/benchmarks.md: raft alone,
// and the engine around a machine that does nothing. Both use the log store and the transport of a node.

// neverCut is the log size before a snapshot for a machine that has nothing to put in one: it is never
// reached.
const neverCut = math.MaxInt64 / 2

// wires opens the transports of n new processes that trust each other.
func wires(t testing.TB, n int) []*transport.Transport {
	t.Helper()
	authority := transporttest.NewAuthority()
	all := make([]*transport.Transport, n)
	for i := range all {
		var err error
		name := string(rune('a' + i))
		if all[i], err = transport.Open(transport.Config{NodeID: name, Listener: listen(t), Identity: authority.Identity(name), Logger: quiet()}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = all[i].Close() })
	}
	return all
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ourTransports returns the nodes' transport as raft sees it; a single member gets one in memory.
func ourTransports(t testing.TB, n int) []raft.Transport {
	t.Helper()
	all := make([]raft.Transport, n)
	if n == 1 {
		_, all[0] = raft.NewInmemTransport("a")
		return all
	}
	for i, w := range wires(t, n) {
		g, err := w.Group("bare", entry.Incarnation{1})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = g
	}
	return all
}

// tlsStream carries raft's own transport over TLS.
type tlsStream struct {
	net.Listener
	identity transport.Identity
}

func (s tlsStream) Dial(to raft.ServerAddress, within time.Duration) (net.Conn, error) {
	return tls.DialWithDialer(&net.Dialer{Timeout: within}, "tcp", string(to), s.identity.Client(""))
}

// raftTransports opens raft's own transports, over TLS.
func raftTransports(t testing.TB, n int) []raft.Transport {
	t.Helper()
	authority := transporttest.NewAuthority()
	all := make([]raft.Transport, n)
	for i := range all {
		identity := authority.Identity(string(rune('a' + i)))
		stream := tlsStream{tls.NewListener(listen(t), identity.Server()), identity}
		all[i] = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: stream, MaxPool: 3, Timeout: 10 * time.Second, Logger: hclog.NewNullLogger(),
		})
	}
	return all
}

// openRafts opens a member without a state machine on each transport and returns the leader.
func openRafts(t testing.TB, transports []raft.Transport) *raft.Raft {
	t.Helper()
	var members raft.Configuration
	for i, at := range transports {
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(rune('a' + i)), Address: at.LocalAddr()})
	}
	led := make(chan *raft.Raft, 16)
	for i, at := range transports {
		r := openRaftMember(t, members.Servers[i].ID, at, members)
		go func() {
			for leads := range r.LeaderCh() {
				if leads {
					led <- r
				}
			}
		}()
	}
	select {
	case r := <-led:
		if err := r.Barrier(time.Minute).Error(); err != nil {
			t.Fatal(err)
		}
		return r
	case <-time.After(time.Minute):
		t.Fatal("no member of the bare group leads")
		return nil
	}
}

func openRaftMember(t testing.TB, id raft.ServerID, at raft.Transport, members raft.Configuration) *raft.Raft {
	t.Helper()
	log, err := (&raftlog.Factory{Logger: hclog.NewNullLogger()}).Open(t.TempDir(), raftlog.WAL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger, cfg.NoLegacyTelemetry = id, hclog.NewNullLogger(), true
	cfg.HeartbeatTimeout, cfg.ElectionTimeout, cfg.LeaderLeaseTimeout = 2*time.Second, 2*time.Second, 2*time.Second
	cfg.SnapshotInterval, cfg.SnapshotThreshold = time.Hour, math.MaxUint64
	cfg.BatchApplyCh = true // callers need no timing to share a batch: the reference is raft at its best
	snaps := raft.NewDiscardSnapshotStore()
	if err := raft.BootstrapCluster(cfg, log, log, snaps, at, members); err != nil {
		t.Fatal(err)
	}
	r, err := raft.NewRaft(cfg, nullFSM{}, log, log, snaps, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if closer, ok := at.(raft.WithClose); ok {
			_ = closer.Close() // otherwise the shutdown waits for members that have left
		}
		if err := errors.Join(r.Shutdown().Error(), log.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// commitBytes commits the three entries of a lifecycle with raft alone.
func commitBytes(r *raft.Raft, ops [][]byte) error {
	for _, data := range ops {
		if err := r.Apply(data, 0).Error(); err != nil {
			return err
		}
	}
	return nil
}

// nullFSM applies nothing.
type nullFSM struct{}

func (nullFSM) Apply(*raft.Log) any                 { return nil }
func (nullFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, io.ErrUnexpectedEOF }
func (nullFSM) Restore(io.ReadCloser) error         { return io.ErrUnexpectedEOF }

// openEngines opens a group of n members without a state machine and returns the founder, which leads.
func openEngines(t testing.TB, n int) *engine.Group {
	t.Helper()
	at := make([]*transport.Transport, n)
	if n > 1 {
		at = wires(t, n)
	}
	first := openEngine(t, at[0], nil)
	for _, w := range at[1:] {
		s, err := first.Status()
		if err != nil {
			t.Fatal(err)
		}
		joined := openEngine(t, w, &s.Incarnation)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err = errors.Join(first.AddLearner(ctx, w.ID(), w.Address()), first.Promote(ctx, w.ID()), joined.Ready(ctx))
		if cancel(); err != nil {
			t.Fatal(err)
		}
	}
	return first
}

func openEngine(t testing.TB, at *transport.Transport, join *entry.Incarnation) *engine.Group {
	t.Helper()
	g, err := engine.Open(engine.Config{
		Dir: t.TempDir(), Group: "bare", Machine: &nullMachine{}, Codec: nullCodec{}, Join: join, Logger: quiet(),
		StartTerm: func() engine.Op { return bytesOp(nil) },
		Tuning:    engine.Tuning{Transport: at, SnapshotBytes: neverCut},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = g.Close(ctx) // the last members can hand over to nobody
	})
	if join == nil {
		if err := g.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func proposeBytes(g *engine.Group, ops [][]byte) error {
	for _, data := range ops {
		if _, _, err := engine.Propose[any](context.Background(), g, bytesOp(data)); err != nil {
			return err
		}
	}
	return nil
}

// bytesOp is an op with given bytes.
type bytesOp []byte

func (bytesOp) Number() entry.Number  { return 1 }
func (bytesOp) Class() pipeline.Class { return pipeline.ClassSettle }
func (bytesOp) Validate() error       { return nil }
func (o bytesOp) SizeVT() int         { return len(o) }

func (o bytesOp) MarshalToSizedBufferVT(to []byte) (int, error) {
	return copy(to[len(to)-len(o):], o), nil
}

// nullCodec carries a bytesOp between members if leadership changes.
type nullCodec struct{}

func (nullCodec) Decode(o entry.Op) (engine.Op, error)               { return bytesOp(o.Bytes), nil }
func (nullCodec) EncodeResult(entry.Number, any) ([]byte, error)     { return nil, nil }
func (nullCodec) DecodeResult(_ entry.Number, _ []byte) (any, error) { return nil, nil }
func (nullCodec) Repeats(engine.Op) bool                             { return true }

// nullMachine does nothing but record its position.
type nullMachine struct {
	at      atomic.Pointer[entry.Applied]
	members atomic.Pointer[membership]
}

type membership struct {
	encoded []byte
	index   uint64
}

func (m *nullMachine) Applied() entry.Applied {
	if at := m.at.Load(); at != nil {
		return *at
	}
	return entry.Applied{}
}

func (m *nullMachine) Apply(at entry.Applied, e entry.Entry) ([]any, error) {
	m.at.Store(&at)
	return make([]any, len(e.Ops)), nil
}

func (m *nullMachine) Configure(at entry.Applied, configuration []byte) error {
	m.at.Store(&at)
	m.members.Store(&membership{configuration, at.Index})
	return nil
}

func (m *nullMachine) Configuration() ([]byte, uint64) {
	if c := m.members.Load(); c != nil {
		return c.encoded, c.index
	}
	return nil, 0
}

func (m *nullMachine) LastClock() int64 { return 0 }
func (m *nullMachine) Flush() error     { return nil }
func (m *nullMachine) Image() (replica.Image, error) {
	return nil, fmt.Errorf("there is nothing to send")
}
func (m *nullMachine) Restore(image.Source) error { return io.ErrUnexpectedEOF }
