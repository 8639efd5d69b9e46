package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
)

// calm sets timeouts for tests in real time. They are long, because a stalled disk or a busy processor must
// not cause an election that the test has not asked for.
func calm(c *engine.Config) { c.Heartbeat, c.Election = 2*time.Second, 2*time.Second }

// TestWritesThroughEveryMember writes through every member of groups of each size, over real TCP and TLS.
// Each member must show its own writes at once.
func TestWritesThroughEveryMember(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, nil, size, calm)
			want := int64(0)
			for range 5 {
				for _, m := range c.members {
					want++
					got, at, err := m.propose(add("k"))
					c.must(err)
					if got != want {
						t.Fatalf("through %s: %d, want %d", m.id, got, want)
					}
					if seen := m.machine.counter("k"); seen < want || m.Applied().Index < at.Index {
						t.Fatalf("%s does not show its own write: %d, want %d", m.id, seen, want)
					}
				}
			}
			for _, m := range c.members {
				c.must(m.Verify(soon(t)))
				if got := m.machine.counter("k"); got != want {
					t.Errorf("a strong read at %s: %d, want %d", m.id, got, want)
				}
			}
		})
	}
}

// TestRefusalsThroughAFollower checks that an error of the machine is the same through a follower and on the
// leader.
func TestRefusalsThroughAFollower(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, 3, calm)
	f := c.others(c.leader())[0]
	_, at, err := f.propose(op{number: opRefuse, key: "x"})
	wantCode(t, err, api.NotFound)
	if at.Index == 0 {
		t.Error("a refusal by the machine has a position")
	}
	_, _, err = f.propose(op{number: opAdd, key: "x", invalid: true})
	wantCode(t, err, api.ValidationError)
	_, _, err = f.propose(op{number: opNilResult})
	wantCode(t, err, api.Internal)
}

// TestCloseHandsLeadershipOver closes the leader. Writes through the others must continue without an error,
// and none may be lost or applied twice.
func TestCloseHandsLeadershipOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, 3, calm)
	leader := c.leader()
	rest := c.others(leader)
	var writing sync.WaitGroup
	var done atomic.Bool
	var written atomic.Int64
	for i := range 8 {
		writing.Go(func() {
			for n := 0; !done.Load(); n++ {
				if _, _, err := rest[i%2].propose(once("k", fmt.Sprint(i, n))); err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
			}
		})
	}
	c.until("there is load", func() bool { return written.Load() > 50 })
	leader.stop()
	next := c.leader()
	at := written.Load()
	c.until("writes go on", func() bool { return written.Load() > at+50 })
	done.Store(true)
	writing.Wait()
	c.must(next.Verify(soon(t)))
	if got := next.machine.counter("k"); got != written.Load() {
		t.Errorf("%d changes, %d were acknowledged", got, written.Load())
	}
}

func TestMembershipChangesUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, 1, calm)
	first := c.members[0]
	var writing sync.WaitGroup
	var done atomic.Bool
	var written atomic.Int64
	for i := range 4 {
		writing.Go(func() {
			for n := 0; !done.Load(); n++ {
				if _, _, err := first.propose(once("k", fmt.Sprint(i, n))); err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
			}
		})
	}
	for range 2 {
		m := c.add()
		m.start()
		c.must(first.AddLearner(soon(t), m.id, m.address))
		c.must(m.Promote(soon(t), m.id)) // requested on the follower, made by the leader
	}
	b, d := c.members[1], c.members[2]
	c.must(b.Transfer(soon(t), d.id))
	if got := c.leaderOf(d); got.LeaderID() != d.id {
		t.Errorf("%s leads, not %s", got.LeaderID(), d.id)
	}
	c.must(b.Remove(soon(t), d.id)) // the leader itself
	c.must(b.Remove(soon(t), d.id)) // it is no longer a member
	done.Store(true)
	writing.Wait()
	c.must(b.Verify(soon(t)))
	if got := b.machine.counter("k"); got != written.Load() {
		t.Errorf("%d changes, %d were acknowledged", got, written.Load())
	}
	if got := fmt.Sprint(len(b.Members()), first.Members()[0].Voter, b.Members()[1].ID); got != "2 trueb" {
		t.Errorf("members: %s", got)
	}
}

// TestALearnerIsRemovedWithoutATransport opens the only voter of a group without a transport. The voter removes the
// learner, although it cannot notify the learner.
func TestALearnerIsRemovedWithoutATransport(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, 1, calm)
	first := c.members[0]
	c.must(first.AddLearner(soon(t), "learner", "127.0.0.1:1"))
	first.stop()
	alone := openNode(t, first.dir)
	c.must(alone.Remove(soon(t), "learner"))
	alone.add(t, "k")
}

// TestRemoveKeepsAQuorum kills one of three members. The leader must remove the dead follower but not the live one,
// without which only one of two voters would be alive.
func TestRemoveKeepsAQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, 3, calm)
	leader := c.leader()
	rest := c.others(leader)
	rest[0].kill()
	wantCode(t, leader.Remove(soon(t), rest[1].id), api.StateConflict)
	c.must(leader.Remove(soon(t), rest[0].id))
}

func TestLeadRunsWhileLeading(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, 3, calm)
	ctx, cancel := context.WithCancel(t.Context())
	var leading [3]atomic.Int32
	var running sync.WaitGroup
	for i, m := range c.members {
		running.Go(func() {
			err := m.Lead(ctx, func(ctx context.Context) error {
				leading[i].Add(1)
				<-ctx.Done()
				leading[i].Add(-1)
				return ctx.Err()
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	is := func(at int) func() bool {
		return func() bool {
			for i := range leading {
				if (leading[i].Load() == 1) != (i == at) {
					return false
				}
			}
			return true
		}
	}
	c.must(c.members[0].Transfer(soon(t), "b"))
	c.until("b's runs", is(1))
	c.must(c.members[0].Transfer(soon(t), "c"))
	c.until("c's runs", is(2))
	cancel()
	running.Wait()
}
