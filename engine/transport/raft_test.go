package transport_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
)

// machine records the entries it was given.
type machine struct {
	mu   sync.Mutex
	seen []string
}

// Apply records each text once, because a text whose leader was lost is sent again and may already be there.
func (m *machine) Apply(l *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if text := string(l.Data); !slices.Contains(m.seen, text) {
		m.seen = append(m.seen, text)
	}
	return nil
}

func (m *machine) has(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.seen) == n
}

func (m *machine) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.seen)
}

func (m *machine) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no snapshots here") }
func (m *machine) Restore(io.ReadCloser) error         { return errors.New("no snapshots here") }

// cluster is three members of a raft group.
type cluster struct {
	*world
	raft    map[string]*raft.Raft
	machine map[string]*machine
}

func newCluster(t testing.TB, net *memnet.Net) *cluster {
	c := &cluster{world: newWorld(t, net, "a", "b", "c"), raft: map[string]*raft.Raft{}, machine: map[string]*machine{}}
	var members raft.Configuration
	for _, id := range c.ids {
		members.Servers = append(members.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(c.at[id])})
	}
	for _, id := range c.ids {
		g := c.group(id)
		config := raft.DefaultConfig()
		config.LocalID = raft.ServerID(id)
		config.Logger = hclog.NewNullLogger()
		// The timeouts are long, because a busy processor must not cause an election: an entry whose leader has
		// lost an election is applied again.
		config.HeartbeatTimeout, config.ElectionTimeout = 2*time.Second, 2*time.Second
		config.LeaderLeaseTimeout, config.CommitTimeout = 1500*time.Millisecond, 20*time.Millisecond
		store := raft.NewInmemStore()
		if err := raft.BootstrapCluster(config, store, store, raft.NewDiscardSnapshotStore(), g, members); err != nil {
			t.Fatal(err)
		}
		c.machine[id] = &machine{}
		r, err := raft.NewRaft(config, c.machine[id], store, store, raft.NewDiscardSnapshotStore(), g)
		if err != nil {
			t.Fatal(err)
		}
		c.raft[id] = r
		t.Cleanup(func() {
			_ = g.Close()
			if err := r.Shutdown().Error(); err != nil {
				t.Error(err)
			}
		})
	}
	return c
}

func (c *cluster) leader(among ...string) string {
	c.t.Helper()
	if len(among) == 0 {
		among = c.ids
	}
	var leader string
	eventually(c.t, "a leader", func() bool {
		for _, id := range among {
			if c.raft[id].State() == raft.Leader && c.raft[id].VerifyLeader().Error() == nil {
				leader = id
				return true
			}
		}
		return false
	})
	return leader
}

// apply replicates a text through the present leader.
func (c *cluster) apply(text string, among ...string) {
	c.t.Helper()
	eventually(c.t, "an entry is committed", func() bool {
		return c.raft[c.leader(among...)].Apply([]byte(text), time.Minute).Error() == nil
	})
}

func (c *cluster) agree(n int) {
	c.t.Helper()
	for _, id := range c.ids {
		eventually(c.t, fmt.Sprintf("%d entries at %s", n, id), func() bool { return c.machine[id].has(n) })
		if got, want := c.machine[id].text(), c.machine["a"].text(); got != want {
			c.t.Errorf("%s has applied %s, a %s", id, got, want)
		}
	}
}

func others(id string) []string {
	var all []string
	for _, o := range []string{"a", "b", "c"} {
		if o != id {
			all = append(all, o)
		}
	}
	return all
}

func TestRaftElectsAndReplicates(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		c := newCluster(t, net)
		for i := range 50 {
			c.apply(fmt.Sprint("entry ", i))
		}
		c.agree(50)
	})
}

func TestRaftReplicatesEntriesOfAllSizes(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		c := newCluster(t, net)
		sizes := []int{0, 1, transport.MaxFrame - 100, transport.MaxFrame, transport.MaxFrame + 1, 3 << 20}
		for _, size := range sizes {
			c.apply(string(bytes.Repeat([]byte{'x'}, size)))
		}
		c.agree(len(sizes))
	})
}

func TestRaftHandsLeadershipOver(t *testing.T) {
	t.Parallel()
	networks(t, func(t *testing.T, net *memnet.Net) {
		c := newCluster(t, net)
		c.apply("before")
		first := c.leader()
		next := others(first)[0]
		eventually(t, "leadership is handed over", func() bool {
			return c.raft[first].LeadershipTransferToServer(raft.ServerID(next), raft.ServerAddress(c.at[next])).Error() == nil
		})
		if got := c.leader(); got != next {
			t.Errorf("%s leads, not %s", got, next)
		}
		c.apply("after")
		c.agree(2)
	})
}

// TestRaftOutlivesItsNetwork runs in virtual time, so that its minutes take no time.
func TestRaftOutlivesItsNetwork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		c := newCluster(t, net)
		entries := 0
		apply := func(among ...string) {
			entries++
			c.apply(fmt.Sprint("entry ", entries), among...)
		}
		apply()
		for range 3 {
			leader := c.leader()
			rest := others(leader)
			net.Break(leader, rest[0])
			apply()
			net.Break(leader, rest[1])
			apply()
			net.Isolate(leader)
			apply(rest...)
			time.Sleep(20 * time.Second)
			apply(rest...)
			net.Heal()
			c.agree(entries)
			net.Cut(c.leader(), rest[0])
			time.Sleep(10 * time.Second)
			net.Heal()
			apply()
			c.agree(entries)
		}
	})
}
