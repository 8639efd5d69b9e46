package cluster

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

// TestAJoinSurvivesCrashes interrupts a join at any write. The next start must finish it.
func TestAJoinSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			founder, joiner := w.machine(t, "node-0"), w.machine(t, "node-1")
			founder.fixed = "founder:1"
			founder.crashes, joiner.crashes = w.chance(3), w.chance(5)
			var running sync.WaitGroup
			running.Go(func() { live(t, ctx, founder, func() Config { return Config{Bootstrap: true, Shards: 3} }) })
			running.Go(func() { live(t, ctx, joiner, func() Config { return Config{Join: []string{founder.fixed}} }) })
			awaitMember(joiner)
			cancel()
			running.Wait()
			w.check(t)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func live(t *testing.T, ctx context.Context, m *machine, cfg func() Config) {
	if err := m.live(ctx, cfg); err != nil {
		t.Error(err)
	}
}

// awaitMember waits until the machine is a member, for at most an hour of virtual time.
func awaitMember(m *machine) {
	for range 3600 {
		if r, err := readRecord(m.dir); err == nil && r != nil && r.Phase == member {
			return
		}
		time.Sleep(time.Second)
	}
}

// TestALostDiskComesBackAsANewcomer checks that a member that lost its disk joins again, and that it was
// removed from all groups before it opens them.
func TestALostDiskComesBackAsANewcomer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var running sync.WaitGroup
			founder, other := w.machine(t, "node-0"), w.machine(t, "node-1")
			founder.fixed = "founder:1"
			running.Go(func() { live(t, ctx, founder, func() Config { return Config{Bootstrap: true, Shards: 2} }) })
			join := func() Config { return Config{Join: []string{founder.fixed}} }
			life, die := context.WithCancel(ctx)
			var first sync.WaitGroup
			first.Go(func() { live(t, life, other, join) })
			awaitMember(other)
			die()
			other.crash()
			first.Wait()
			if err := os.RemoveAll(other.dir); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			other.groups = nil
			w.mu.Unlock()
			other.crashes = w.chance(4)
			running.Go(func() { live(t, ctx, other, join) })
			awaitMember(other)
			cancel()
			running.Wait()
			w.check(t)
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// two returns a running founder and a machine that has not started.
func two(t *testing.T, founder Config) (w *world, c *Cluster, newcomer *machine) {
	w = newWorld(1)
	m := w.machine(t, "node-0")
	founder.Bootstrap = true
	c, err := Open(t.Context(), m.config(founder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(m.openGroups(c)); err != nil {
		t.Fatal(err)
	}
	return w, c, w.machine(t, "node-1")
}

func TestJoinsThatCannotBeAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		founder Config
		joiner  func(m *machine, cfg *Config)
		want    api.Code
	}{
		"too old a version": {
			founder: Config{Version: "v9", Replicated: func() uint32 { return 7 }},
			joiner:  func(_ *machine, cfg *Config) { cfg.Level, cfg.Version = 6, "v8" }, want: api.PreconditionFailed,
		},
		"the founder's name": {joiner: func(m *machine, _ *Config) { m.id = "node-0" }, want: api.Conflict},
		"other shards":       {founder: Config{Shards: 2}, joiner: func(_ *machine, cfg *Config) { cfg.Shards = 3 }, want: api.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, founder, m := two(t, c.founder)
				cfg := Config{Join: []string{founder.Address()}}
				c.joiner(m, &cfg)
				_, err := Open(t.Context(), m.config(cfg))
				if api.CodeOf(err) != c.want {
					t.Errorf("%v, want %s", err, c.want)
				}
			})
		})
	}
}

// TestTheClustersOwnLevelMayJoin checks that a node with exactly the cluster's level may join.
func TestTheClustersOwnLevelMayJoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, founder, m := two(t, Config{Level: 9, Replicated: func() uint32 { return 7 }})
		c, err := Open(t.Context(), m.config(Config{Join: []string{founder.Address()}, Level: 7}))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestALiveMembersNameIsNotTaken checks that an ID in use is not given to another process.
func TestALiveMembersNameIsNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, founder, m := two(t, Config{})
		join := Config{Join: []string{founder.Address()}}
		first, err := Open(t.Context(), m.config(join))
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		if err := first.Start(m.openGroups(first)); err != nil {
			t.Fatal(err)
		}
		awaitMember(m)
		impostor := w.machine(t, "node-1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = Open(ctx, impostor.config(join))
		if api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), `another process holds node id "node-1"`) {
			t.Errorf("%v", err)
		}
		if got := founder.wire.AddressOf("node-1"); got != first.Address() {
			t.Errorf("the member is taken to be at %s, it is at %s", got, first.Address())
		}
		if r := first.current(); !isMember(first.groups[0], r.NodeID) {
			t.Error("the member has lost its place")
		}
	})
}

func TestANodeWaitsToBeInvited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, founder, m := two(t, Config{})
		cfg := m.config(Config{})
		opened := make(chan *Cluster)
		go func() {
			c, err := Open(t.Context(), cfg)
			if err != nil {
				t.Error(err)
			}
			opened <- c
		}()
		synctest.Wait()
		if err := founder.Invite(t.Context(), m.address); err != nil {
			t.Fatal(err)
		}
		c := <-opened
		defer c.Close()
		if c.ID() != founder.ID() {
			t.Error("it is in another cluster")
		}
		if err := founder.Invite(t.Context(), m.address); err != nil {
			t.Errorf("invited again: %v", err)
		}
		other := w.machine(t, "node-2")
		alone, err := Open(t.Context(), other.config(Config{Bootstrap: true}))
		if err != nil {
			t.Fatal(err)
		}
		defer alone.Close()
		if err := founder.Invite(t.Context(), other.address); api.CodeOf(err) != api.Conflict {
			t.Errorf("a node of another cluster: %v", err)
		}
	})
}

func TestARemovedNodeDoesNotComeBackByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, founder, m := two(t, Config{})
		c, err := Open(t.Context(), m.config(Config{Join: []string{founder.Address()}}))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(m.openGroups(c)); err != nil {
			t.Fatal(err)
		}
		awaitMember(m)
		if err := founder.Remove(t.Context(), "node-1"); err != nil {
			t.Fatal(err)
		}
		if err := founder.Remove(t.Context(), "node-1"); api.CodeOf(err) != api.NotFound {
			t.Errorf("removed again: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := Open(t.Context(), m.config(Config{})); api.CodeOf(err) != api.Conflict {
			t.Errorf("after it was removed: %v", err)
		}
	})
}
