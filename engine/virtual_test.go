package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport/memnet"
)

// virtual runs a cluster on a network in memory and in virtual time: minutes of the cluster take
// milliseconds.
func virtual(t *testing.T, voters int, f func(t *testing.T, c *cluster), tune ...func(*engine.Config)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f(t, newCluster(t, memnet.New(), voters, tune...))
	})
}

// within runs f with a time limit in virtual time.
func within[T any](d time.Duration, f func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return f(ctx)
}

func (m *member) verify(d time.Duration) error {
	_, err := within(d, func(ctx context.Context) (any, error) { return nil, m.Verify(ctx) })
	return err
}

func (m *member) try(d time.Duration, o op) (int64, error) {
	return within(d, func(ctx context.Context) (int64, error) {
		n, _, err := engine.Propose[int64](ctx, m.Group, o)
		return n, err
	})
}

// TestIsolatedLeaderAnswersNothing cuts a leader off from the others. From that moment it must confirm no
// read and acknowledge no write. The others must go on, and the old leader must follow when it is back.
func TestIsolatedLeaderAnswersNothing(t *testing.T) {
	t.Parallel()
	cuts := map[string]func(n *memnet.Net, leader string, rest []*member){
		"both ways": func(n *memnet.Net, leader string, _ []*member) { n.Isolate(leader) },
		"hears nothing": func(n *memnet.Net, leader string, rest []*member) {
			for _, m := range rest {
				n.Cut(m.id, leader)
			}
		},
		"is not heard": func(n *memnet.Net, leader string, rest []*member) {
			for _, m := range rest {
				n.Cut(leader, m.id)
			}
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			virtual(t, 3, func(t *testing.T, c *cluster) {
				old := c.leader()
				rest := c.others(old)
				_, _, err := old.propose(once("k", "before"))
				c.must(err)
				cut(c.net, old.id, rest)
				if err := old.verify(400 * time.Millisecond); err == nil {
					t.Error("a leader that is cut off confirms a read")
				}
				next := c.leaderOf(rest...)
				if got, err := rest[0].try(time.Minute, once("k", "meanwhile")); err != nil || got != 2 {
					t.Fatalf("the others: %d, %v", got, err)
				}
				if err := old.verify(10 * time.Second); err == nil && old.machine.counter("k") < 2 {
					t.Error("a member that was cut off answers from the past")
				}
				c.net.Heal()
				c.must(old.Verify(soon(t)))
				if got := old.machine.counter("k"); got != 2 {
					t.Errorf("after healing: %d of 2 changes", got)
				}
				c.must(next.Verify(soon(t)))
			})
		})
	}
}

// TestALearnerConfirmsNoLeader exists because raft would count the learner's answer as a voter's.
func TestALearnerConfirmsNoLeader(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		voters := c.others(leader)
		l := c.add()
		l.start()
		c.must(leader.AddLearner(soon(t), l.id, l.address))
		c.must(l.Ready(soon(t)))
		c.must(leader.Verify(soon(t)))
		for _, m := range voters {
			c.net.Cut(m.id, leader.id)
			c.net.Cut(leader.id, m.id)
		}
		if err := leader.verify(400 * time.Millisecond); err == nil {
			t.Error("a leader with a learner confirms itself")
		}
		c.net.Heal()
		c.must(l.Verify(soon(t)))
	})
}

// TestWriteOfADeposedLeader writes an op that is only in the leader's log when the leader is cut off. Its
// caller must be told that the outcome is unknown, unless the op may be repeated.
func TestWriteOfADeposedLeader(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		old := c.leader()
		rest := c.others(old)
		c.net.Isolate(old.id)
		_, err := old.try(time.Minute, add("plain"))
		if !engine.Unknown(err) {
			t.Errorf("a write that only the old leader has: %v", err)
		}
		repeated := make(chan error)
		go func() {
			_, err := old.try(time.Minute, once("k", "1"))
			repeated <- err
		}()
		next := c.leaderOf(rest...)
		_, _, err = next.propose(once("k", "2"))
		c.must(err)
		c.net.Heal()
		c.must(<-repeated)
		c.must(next.Verify(soon(t)))
		if k, plain := next.machine.counter("k"), next.machine.counter("plain"); k != 2 || plain != 0 {
			t.Errorf("k is %d, want 2; plain is %d, want 0", k, plain)
		}
	})
}

// TestLostAnswers breaks the connection between the apply and the answer. An op that finds its own effect
// must be repeated and applied once; another op must not be repeated.
func TestLostAnswers(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		f := c.others(leader)[0]
		lost := map[string]bool{}
		leader.machine.mu.Lock()
		leader.machine.onApply = func(e entry.Entry) {
			if len(e.Ops) > 0 && strings.HasPrefix(string(e.Ops[0].Bytes), "lost") && !lost[string(e.Ops[0].Bytes)] {
				lost[string(e.Ops[0].Bytes)] = true
				c.net.Break(leader.id, f.id)
			}
		}
		leader.machine.mu.Unlock()
		got, err := f.try(time.Minute, once("lost", "1"))
		if err != nil || got != 1 {
			t.Errorf("repeated: %d, %v", got, err)
		}
		_, err = f.try(time.Minute, add("lost too"))
		if !engine.Unknown(err) || api.CodeOf(err) != api.LeaderUnavailable {
			t.Errorf("an op that may not be repeated: %v", err)
		}
		c.must(f.Verify(soon(t)))
		if once, plain := f.machine.counter("lost"), f.machine.counter("lost too"); once != 1 || plain != 1 {
			t.Errorf("applied %d and %d times", once, plain)
		}
	})
}

// TestNoLeaderWritesNothing lets a write wait without a quorum. If its caller gives up before it was sent,
// the error must say that nothing was written, and that must be true.
func TestNoLeaderWritesNothing(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		rest := c.others(leader)
		leader.kill()
		rest[1].kill()
		time.Sleep(10 * time.Second)
		_, err := rest[0].try(5*time.Second, add("k"))
		wantCode(t, err, api.LeaderUnavailable)
		if engine.Unknown(err) || err.(*api.Error).RetryAfter == 0 { //nolint:errorlint // as wantCode
			t.Errorf("without a leader: %v", err)
		}
		leader.start()
		c.must(rest[0].Ready(soon(t)))
		c.must(rest[0].Verify(soon(t)))
		if got := rest[0].machine.counter("k"); got != 0 {
			t.Errorf("applied %d times", got)
		}
	})
}

// TestAChangeWithoutAQuorumMayHaveHappened lets a leader without a quorum write a change of membership. The caller must
// not be told that nothing was written, because a later leader may commit the change.
func TestAChangeWithoutAQuorumMayHaveHappened(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.net.Isolate(leader.id)
		_, err := within(10*time.Second, func(ctx context.Context) (any, error) {
			return nil, leader.AddLearner(ctx, "later", "later:1")
		})
		wantCode(t, err, api.LeaderUnavailable)
		if strings.Contains(err.Error(), "nothing was written") || err.(*api.Error).RetryAfter == 0 { //nolint:errorlint // as wantCode
			t.Error(err)
		}
		c.net.Heal()
	})
}

// TestAllRestartedAtOnce kills all members at once with nothing flushed. Every acknowledged change must be in
// the logs.
func TestAllRestartedAtOnce(t *testing.T) {
	for _, size := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			virtual(t, size, func(t *testing.T, c *cluster) {
				for round := range int64(3) {
					for i := range 10 {
						_, _, err := c.members[i%size].propose(add("k"))
						c.must(err)
					}
					for _, m := range c.members {
						m.kill()
					}
					begun := time.Now()
					for _, m := range c.members {
						m.start()
					}
					for _, m := range c.members {
						c.must(m.Ready(soon(t)))
						c.must(m.Verify(soon(t)))
						if got := m.machine.counter("k"); got != 10*(round+1) {
							t.Fatalf("%s has %d of %d changes", m.id, got, 10*(round+1))
						}
					}
					if took := time.Since(begun); took > 10*time.Second {
						t.Errorf("a leader after %v", took)
					}
				}
			})
		})
	}
}

// TestFollowerBehindGetsASnapshot stops a follower until the log it needs is truncated.
func TestFollowerBehindGetsASnapshot(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		away := c.others(c.leader())[0]
		away.stop()
		leader := c.leader()
		for i := range 40 {
			_, _, err := leader.propose(once("k", fmt.Sprint(i)))
			c.must(err)
		}
		c.must(leader.Snapshot())
		for _, m := range c.others(away) {
			if m != leader {
				c.must(m.Snapshot())
			}
		}
		away.start()
		c.must(away.Ready(soon(t)))
		c.must(away.Verify(soon(t)))
		if got := away.machine.counter("k"); got != 40 {
			t.Errorf("%d of 40 changes", got)
		}
		if clocks := len(away.machine.clocks); clocks >= 40 {
			t.Errorf("%d entries were applied one by one: no image was sent", clocks)
		}
		_, _, err := away.propose(add("k"))
		c.must(err)
	}, func(c *engine.Config) { c.TrailingBytes = -1 })
}

// TestRemovedMemberDisturbsNobody removes a member while it is away. When it is back and asks for votes, it
// must be notified and must disturb nobody.
func TestRemovedMemberDisturbsNobody(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		gone := c.others(leader)[0]
		c.net.Isolate(gone.id)
		c.must(leader.Remove(soon(t), gone.id))
		before, err := leader.Status()
		c.must(err)
		c.net.Heal()
		time.Sleep(time.Minute)
		after, err := leader.Status()
		c.must(err)
		if after.Term != before.Term || !leader.Leader() {
			t.Errorf("term %d became %d", before.Term, after.Term)
		}
		c.until("it knows", func() bool {
			s, err := gone.Status()
			c.must(err)
			return s.State == "Removed" && !s.Voter
		})
		if _, err := gone.try(5*time.Second, add("k")); api.CodeOf(err) != api.LeaderUnavailable {
			t.Errorf("a write through who is no member: %v", err)
		}
	})
}

// TestRemovedMemberSaysSo checks that a follower that was notified of its removal reports it.
func TestRemovedMemberSaysSo(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		gone := c.others(leader)[0]
		time.Sleep(time.Second)
		c.must(leader.Remove(soon(t), gone.id))
		c.until("it knows", func() bool {
			s, err := gone.Status()
			c.must(err)
			return s.State == "Removed" && !s.Voter
		})
	})
}

// TestLoneGroupBecomesACluster opens a directory of a group that never had other members as a member of a
// cluster. While it is alone, the address in its configuration is its name.
func TestLoneGroupBecomesACluster(t *testing.T) {
	virtual(t, 0, func(t *testing.T, c *cluster) {
		m := c.add()
		n, err := tryOpenNode(t, m.dir, func(conf *engine.Config) { conf.NodeID = m.id })
		c.must(err)
		c.must(n.Ready(soon(t)))
		n.add(t, "k")
		s, err := n.Status()
		c.must(err)
		c.history = &s.Incarnation
		n.shut(t)
		m.start()
		c.must(m.Ready(soon(t)))
		c.until("it has an address", func() bool { return m.Members()[0].Address == m.address })
		b := c.add()
		b.start()
		c.must(m.AddLearner(soon(t), b.id, b.address))
		c.must(b.Ready(soon(t)))
		c.must(b.Verify(soon(t)))
		if got := b.machine.counter("k"); got != 1 {
			t.Errorf("the new member has %d of 1 changes", got)
		}
	})
}
