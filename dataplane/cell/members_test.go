package cell

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/raftlog"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// fleet is a set of nodes in this process that may be members of one group, each with its disk and its transport.
type fleet struct {
	t          *testing.T
	net        *memnet.Net // nil = TCP
	identities map[string]transport.Identity
	founder    *entry.Incarnation
	nodes      map[string]*storeNode
}

// storeNode is one node, running or not.
type storeNode struct {
	*Cell
	id, dir, address string
	maxLevel         uint32 // of its binary; 0 = this one's
	transport        *transport.Transport
}

// newFleet starts nodes. The first founds the group, and the others wait to be added.
func newFleet(t *testing.T, on *memnet.Net, ids ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, net: on, identities: transporttest.Identities(ids...), nodes: map[string]*storeNode{}}
	for _, id := range ids {
		f.nodes[id] = &storeNode{id: id, dir: t.TempDir()}
		t.Cleanup(func() { f.stop(id) })
		f.start(id)
		if f.founder == nil {
			f.must(f.nodes[id].Ready(f.soon()))
			s, err := f.nodes[id].Status()
			f.must(err)
			f.founder = &s.Engine.Incarnation
		}
	}
	return f
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// soon returns a context with the deadline of everything that must happen.
func (f *fleet) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), conditionTimeout)
	f.t.Cleanup(cancel)
	return ctx
}

// start opens a node under its previous address.
func (f *fleet) start(id string) {
	f.t.Helper()
	n := f.nodes[id]
	config := transport.Config{NodeID: id, Identity: f.identities[id], Logger: slog.New(slog.DiscardHandler)}
	var err error
	if f.net == nil {
		config.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	} else {
		port := 0
		if n.address != "" {
			_, err := fmt.Sscanf(n.address, id+":%d", &port)
			f.must(err)
		}
		config.Listener, err = f.net.Listen(id, port)
		config.Dial = f.net.Dialer(id)
	}
	f.must(err)
	n.address = config.Listener.Addr().String()
	n.transport, err = transport.Open(config)
	f.must(err)
	n.Cell, err = Open(Config{
		Dir: n.dir, Group: "test/0", NodeID: id, Join: f.founder, MaxLevel: n.maxLevel, Logger: config.Logger,
		Engine: engine.Tuning{Transport: n.transport, SegmentBytes: raftlog.MinSegmentBytes, Heartbeat: time.Second, Election: time.Second},
	})
	f.must(err)
}

// stop closes a node that runs.
func (f *fleet) stop(id string) {
	f.t.Helper()
	n := f.nodes[id]
	if n == nil || n.Cell == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), conditionTimeout)
	defer cancel()
	if err := n.Close(ctx); err != nil {
		f.t.Errorf("close %s: %v", id, err)
	}
	f.must(n.transport.Close())
	n.Cell = nil
}

// setMembers proposes a list through one node, as its host does, and repeats that until a leader has answered.
func (f *fleet) setMembers(through string, generation uint64, ids ...string) error {
	o := &op.SetMembers{Meta: &op.Meta{Principal: "host"}, Epoch: 1, Generation: generation}
	for _, id := range ids {
		o.Members = append(o.Members, &state.Member{Id: id, Address: f.nodes[id].address})
	}
	for ctx := f.soon(); ; {
		_, _, err := Propose[*op.SetMembersResult](ctx, f.nodes[through].Cell, o)
		if code := api.CodeOf(err); code != api.LeaderUnavailable && code != api.Unsupported || ctx.Err() != nil {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// becomes waits until the leader is one of the voters ids, and the group has no other members.
func (f *fleet) becomes(ids ...string) (leader string) {
	f.t.Helper()
	last := ""
	deadline := time.Now().Add(conditionTimeout)
	for time.Now().Before(deadline) {
		for _, id := range ids {
			n := f.nodes[id]
			if n.Cell == nil || !n.Leader() {
				continue
			}
			var voters, all []string
			for _, m := range n.Engine().Members() {
				all = append(all, fmt.Sprintf("%s(%t)", m.ID, m.Voter))
				if m.Voter {
					voters = append(voters, m.ID)
				}
			}
			last = id + " leads " + strings.Join(all, " ")
			if len(all) == len(ids) && slices.Equal(voters, slices.Sorted(slices.Values(ids))) {
				return id
			}
		}
		<-time.After(5 * time.Millisecond)
	}
	f.t.Fatalf("the group does not become %v; last seen: %q", ids, last)
	return ""
}

// writer enqueues jobs through all running nodes and remembers the acknowledged ones.
type writer struct {
	mu    sync.Mutex
	acked []job.ID
	nodes []*Cell
	done  sync.WaitGroup
	stop  context.CancelFunc
}

// write starts a writer at nodes that stay open while it writes.
func (f *fleet) write(ids ...string) *writer {
	w := &writer{}
	for _, id := range ids {
		w.nodes = append(w.nodes, f.nodes[id].Cell)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	for _, c := range w.nodes {
		w.done.Go(func() {
			for ctx.Err() == nil {
				limited, cancel := context.WithTimeout(ctx, time.Second)
				id, err := tryEnqueue(limited, c, "q", []byte("{}"), time.Time{})
				cancel()
				if err != nil {
					<-time.After(5 * time.Millisecond) // no leader, or not in the group yet
					continue
				}
				w.mu.Lock()
				w.acked = append(w.acked, id)
				w.mu.Unlock()
			}
		})
	}
	return w
}

func (w *writer) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// more waits until the writer has got n more acknowledgements.
func (w *writer) more(t *testing.T, n int) {
	t.Helper()
	goal := w.count() + n
	eventually(t, "writes go on", func() bool { return w.count() >= goal })
}

// finish ends the writer and checks that a node has each acknowledged job, in its store and its view.
func (w *writer) finish(f *fleet, at string) {
	f.t.Helper()
	w.stop()
	w.done.Wait()
	c := f.nodes[at].Cell
	f.must(c.Verify(f.soon()))
	f.must(c.View().Wait(f.soon(), uint64(c.Applied())))
	lost := 0
	for _, id := range w.acked {
		j, err := c.State().Job(id)
		f.must(err)
		if j == nil {
			lost++
		}
	}
	if lost > 0 || len(w.acked) == 0 {
		f.t.Errorf("%d of %d acknowledged jobs are lost", lost, len(w.acked))
	}
	if c.viewApplied() < c.Applied() {
		f.t.Errorf("the view of %s shows entry %d of %d", at, c.viewApplied(), c.Applied())
	}
}

// TestMembersMoveUnderWrites grows a group from a to a, b and c, replaces a by d, and shrinks the group to d,
// while jobs are written, over TCP and on real disks.
func TestMembersMoveUnderWrites(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil, "a", "b", "c", "d")
	w := f.write("a", "d")
	w.more(t, 20)
	f.must(f.setMembers("a", 1, "a", "b", "c"))
	f.becomes("a", "b", "c")
	w.more(t, 20)
	f.must(f.setMembers("b", 2, "b", "c", "d"))
	f.becomes("b", "c", "d")
	w.more(t, 20)
	f.must(f.setMembers("c", 3, "d"))
	f.becomes("d")
	w.more(t, 20)
	w.finish(f, "d")
	if got := f.nodes["d"].State().Members(); got.GetGeneration() != 3 {
		t.Errorf("the stored list is %v", got)
	}
}

// TestACutOffLeaderBringsNothingBack cuts a leader off with an old list while the others replace all other members,
// and the replaced ones lose their data. When the leader is back, its host's old list must be refused, and the
// leader must add nobody of the old list, even when it leads again.
func TestACutOffLeaderBringsNothingBack(t *testing.T) {
	t.Parallel()
	network := memnet.New()
	f := newFleet(t, network, "a", "b", "c", "d", "e")
	f.must(f.setMembers("a", 1, "a", "b", "c"))
	f.becomes("a", "b", "c")
	f.must(f.nodes["a"].Engine().Transfer(f.soon(), "a"))
	for _, id := range []string{"b", "c"} {
		// A voter that has not yet heard that another has a vote refuses to vote for it.
		f.must(f.nodes[id].Verify(f.soon()))
	}
	network.Isolate("a")
	w := f.write("d")
	f.must(f.setMembers("b", 2, "a", "d", "e"))
	w.more(t, 0)
	eventually(t, "the group is a, d and e", func() bool {
		for _, id := range []string{"d", "e"} {
			if n := f.nodes[id]; n.Leader() && shape(n.Cell) == "a d e" {
				return true
			}
		}
		return false
	})
	w.more(t, 20)
	for _, id := range []string{"b", "c"} {
		f.stop(id)
		f.must(os.RemoveAll(f.nodes[id].dir))
		f.start(id) // an empty disk that waits for a leader to add it
	}
	network.Heal()
	err := f.setMembers("a", 1, "a", "b", "c") // by the old document of its host
	if e, ok := err.(*api.Error); !ok || e.Code != api.StateConflict {
		t.Errorf("the old list is not refused: %v", err)
	}
	f.becomes("a", "d", "e")
	eventually(t, "a leads again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return f.nodes["a"].Leader() || f.nodes["a"].Engine().Transfer(ctx, "a") == nil && f.nodes["a"].Leader()
	})
	w.more(t, 20)
	eventually(t, "a has heard of its members", func() bool {
		return !slices.ContainsFunc(f.nodes["a"].Engine().Members(), func(m engine.Member) bool { return m.LastContact < 0 })
	})
	f.becomes("a", "d", "e")
	for _, id := range []string{"b", "c"} {
		if at := f.nodes[id].Applied(); at != 0 {
			t.Errorf("%s, whose data was deleted, has got entry %d", id, at)
		}
	}
	w.finish(f, "a")
}

// shape prints the voters that a member knows, and the learners with a plus.
func shape(c *Cell) string {
	var all []string
	for _, m := range c.Engine().Members() {
		if !m.Voter {
			m.ID = "+" + m.ID
		}
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}
