package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// counted counts writes; each write is a packet.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// TestGroupsShareConnections checks the cost of a hundred groups of three members: six connections, a few
// writes for a round of heartbeats, and a ping a second while idle.
func TestGroupsShareConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		var dials, writes atomic.Int64
		ids := transporttest.Identities("a", "b", "c")
		w := newWorld(t, mem)
		groups := map[string][]*transport.Group{}
		for _, id := range others("") {
			c, dial := w.config(id, ids[id]), mem.Dialer(id)
			c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				dials.Add(1)
				conn, err := dial(ctx, address)
				return counted{conn, &writes}, err
			}
			n, err := transport.Open(c)
			if err != nil {
				t.Fatal(err)
			}
			w.node[id], w.at[id] = n, n.Address()
			for i := range 100 {
				g, err := n.Group(fmt.Sprint(i), incarnation)
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close()
				g.SetHeartbeatHandler(func(rpc raft.RPC) { rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil) })
				groups[id] = append(groups[id], g)
			}
		}
		round := func() {
			var wg sync.WaitGroup
			for from, all := range groups {
				for _, to := range others(from) {
					for _, g := range all {
						wg.Go(func() {
							err := g.AppendEntries(raft.ServerID(to), raft.ServerAddress(w.at[to]), &raft.AppendEntriesRequest{
								RPCHeader: raft.RPCHeader{ID: []byte(from), Addr: []byte(from)}, Term: 1,
							}, &raft.AppendEntriesResponse{})
							if err != nil {
								t.Error(err)
							}
						})
					}
				}
			}
			wg.Wait()
		}
		round()
		if n := dials.Load(); n != 6 {
			t.Errorf("%d connections", n)
		}
		time.Sleep(1500 * time.Millisecond)
		before := writes.Load()
		time.Sleep(100 * time.Second)
		if n := writes.Load() - before; n != 6*100 {
			t.Errorf("six idle connections made %d writes in 100 seconds", n)
		}
		before = writes.Load()
		round()
		if n := writes.Load() - before; n > 300 {
			t.Errorf("600 heartbeats took %d writes", n)
		} else {
			t.Logf("600 heartbeats took %d writes", n)
		}
	})
}

// TestLongMessagesTakeFewWrites checks that a long message costs one system call for each 128 KiB, not one
// for each record.
func TestLongMessagesTakeFewWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mem := memnet.New()
		var writes atomic.Int64
		ids := transporttest.Identities("a", "b")
		w := newWorld(t, mem)
		w.open("b", ids["b"]).Handle(ask, func(context.Context, transport.Peer, []byte) ([]byte, error) { return nil, nil })
		c, dial := w.config("a", ids["a"]), mem.Dialer("a")
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			return counted{conn, &writes}, err
		}
		a, err := transport.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		w.node["a"] = a
		if err := call(t, w, "a", "b"); err != nil {
			t.Fatal(err)
		}
		before := writes.Load()
		if _, err := a.Call(within(t), w.to("b"), ask, make([]byte, 8<<20)); err != nil {
			t.Fatal(err)
		}
		if n := writes.Load() - before; n > 8<<20/(128<<10)+2 {
			t.Errorf("8 MiB took %d writes", n)
		}
	})
}

// TestEntriesArriveAsTheyWere checks that buffers are reused only after their content was sent.
func TestEntriesArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		w := newWorld(t, net, "a", "b")
		ctx, stop := context.WithCancel(within(t))
		var receivers, senders sync.WaitGroup
		defer receivers.Wait()
		defer stop()
		for i := range 3 {
			var ends []*transport.Group
			for _, id := range w.ids {
				g, err := w.node[id].Group(fmt.Sprint(i), incarnation)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = g.Close() })
				ends = append(ends, g)
			}
			receivers.Go(func() { receiveEntries(ctx, t, ends[1]) })
			senders.Go(func() {
				const each = 12
				for n := 0; n < each; {
					if ctx.Err() != nil {
						t.Errorf("group %d: only %d of %d requests were answered", i, n, each)
						return
					}
					n += sendEntries(ends[0], w.at["b"], i*each, n, each)
				}
			})
		}
		senders.Wait()
	})
}

// receiveEntries answers requests until ctx ends. Each byte of an entry must be the entry's term.
func receiveEntries(ctx context.Context, t *testing.T, g *transport.Group) {
	for {
		select {
		case rpc := <-g.Consumer():
			for _, l := range rpc.Command.(*raft.AppendEntriesRequest).Entries {
				if want := bytes.Repeat([]byte{byte(l.Term)}, len(l.Data)); !bytes.Equal(l.Data, want) {
					t.Errorf("an entry of %d bytes is not what was sent", len(l.Data))
				}
			}
			rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
		case <-ctx.Done():
			return
		}
	}
}

// sendEntries sends the requests [from, to) through one pipeline, and returns the number of answers. On a busy machine an
// answer may take longer than RPCTimeout, which ends the pipeline; the caller then sends the rest through another one.
func sendEntries(g *transport.Group, to string, term, from, until int) (answers int) {
	p, err := g.AppendEntriesPipeline("b", raft.ServerAddress(to))
	if err != nil {
		return 0
	}
	defer p.Close()
	ctx, stop := context.WithCancel(context.Background())
	var draining sync.WaitGroup
	defer draining.Wait()
	defer stop()
	draining.Go(func() {
		for {
			select {
			case <-p.Consumer(): // its window is smaller than the number of requests
			case <-ctx.Done():
				return
			}
		}
	})
	var sent []raft.AppendFuture
	for n := from; n < until; n++ {
		value := uint64(1 + term + n)
		data := bytes.Repeat([]byte{byte(value)}, transport.MaxFrame/2+n*transport.MaxFrame/4)
		future, err := p.AppendEntries(&raft.AppendEntriesRequest{
			RPCHeader: raft.RPCHeader{ID: []byte("a"), Addr: []byte("a")}, Term: 1, PrevLogEntry: 1,
			Entries: []*raft.Log{{Index: 1, Term: value, Data: data}},
		}, &raft.AppendEntriesResponse{})
		if err != nil {
			break
		}
		sent = append(sent, future)
	}
	for _, future := range sent {
		if future.Error() != nil {
			break
		}
		answers++
	}
	return answers
}
