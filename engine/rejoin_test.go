package engine_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/corvo/corvo/engine/entry"
)

// rejoin deletes the data of a member that has left, and starts it anew. When the leader adds it again and it has
// applied its first entries, it is cut off from all others: its log then ends long before it left. Messages to it take
// time, so that it applies the entries of the first one before the next one arrives.
func (m *member) rejoin() {
	c := m.cluster
	c.t.Helper()
	m.stop()
	c.must(os.RemoveAll(m.dir))
	for _, other := range c.others(m) {
		c.net.Delay(other.id, m.id, 10*time.Millisecond)
	}
	m.start()
	m.machine.mu.Lock()
	defer m.machine.mu.Unlock()
	m.machine.onApply = func(entry.Entry) {
		m.machine.onApply = nil
		c.net.Isolate(m.id)
	}
}

// filling is several times the number of entries that a leader sends to a new member in one message.
const filling = 400

// fill proposes so many entries that a member which has received only the first messages ends in the middle of them.
func (m *member) fill(key string) {
	m.cluster.t.Helper()
	for range filling {
		_, _, err := m.propose(add(key))
		m.cluster.must(err)
	}
}

// again runs f twice. restart does nothing in the first run, and kills and restarts the member in the second, because the
// member's limits must survive that.
func again(t *testing.T, f func(t *testing.T, c *cluster, l *lists, restart func(*member))) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			inList(t, func(c *cluster, l *lists) {
				f(c.t.(*testing.T), c, l, func(m *member) {
					if killed {
						m.kill()
						m.start()
					}
				})
			})
		})
	}
}

// TestARejoinedMemberDoesNotElectItself moves a group from a to b and back, deletes b's data and adds b again. While b's
// log ends in the old configuration, in which b was alone, the leader dies. b must not lead, because it lacks the
// entries that the group has committed since.
func TestARejoinedMemberDoesNotElectItself(t *testing.T) {
	again(t, func(t *testing.T, c *cluster, l *lists, restart func(*member)) {
		a, b := c.members[0], c.members[1]
		l.set(b)
		c.until("b is alone", func() bool { return b.Leader() && shape(b) == "B" })
		b.fill("k")
		l.set(a)
		c.until("a is alone", func() bool { return a.Leader() && shape(a) == "A" })
		a.fill("k")
		b.rejoin()
		l.set(a, b)
		c.until("b has its first entries", func() bool { return b.Applied().Index > 0 })
		a.kill()
		restart(b)
		if got := shape(b); got != "B" {
			t.Fatalf("b knows %s, not the old configuration", got)
		}
		c.net.Heal()
		time.Sleep(time.Minute) // virtual
		if s, err := b.Status(); err != nil || s.State != "Follower" || b.Leader() {
			t.Errorf("b has forgotten half of the group's entries and is %s (%v)", s.State, err)
		}
		a.start()
		c.until("both have a vote", func() bool { return shape(c.leaderOf(a, b)) == "AB" })
		c.must(b.Verify(soon(t)))
		if got := b.machine.counter("k"); got != 2*filling {
			t.Errorf("b has %d of %d changes", got, 2*filling)
		}
	})
}

// TestARejoinedMemberElectsNoOldVoter cuts b off from a, b and c, and replaces b and c by d. The data of c is deleted and
// c is added again. While its log ends in the old configuration, the leader dies and c meets b. They must not elect a
// leader, although they are a majority of the old configuration. Once c has its vote, it helps to replace the leader.
func TestARejoinedMemberElectsNoOldVoter(t *testing.T) {
	again(t, func(t *testing.T, c *cluster, l *lists, restart func(*member)) {
		a, b, e, d := c.members[0], c.members[1], c.members[2], c.members[3]
		l.set(a, b, e)
		c.until("three have a vote", func() bool { return shape(a) == "ABC" })
		a.fill("k")
		c.must(b.Verify(soon(t)))
		c.net.Isolate(b.id)
		l.set(a, d)
		c.until("d has replaced b and c", func() bool { return a.Leader() && shape(a) == "AD" })
		a.fill("k")
		e.rejoin()
		l.set(a, e, d)
		c.until("c has its first entries", func() bool { return e.Applied().Index > 0 })
		a.kill()
		restart(e)
		if got := shape(e); got != "ABC" {
			t.Fatalf("c knows %s, not the old configuration", got)
		}
		c.net.Heal()
		c.net.Isolate(d.id)
		for range 60 {
			time.Sleep(time.Second) // virtual
			if b.Leader() || e.Leader() {
				t.Fatal("a member leads that lacks half of the group's entries")
			}
		}
		c.net.Heal()
		a.start()
		c.until("three have a vote again", func() bool { return shape(c.leaderOf(a, d)) == "ACD" })
		c.must(e.Verify(soon(t)))
		c.leaderOf(a, d, e).kill()
		rest := c.leaderOf(running(a, d, e)...)
		c.must(rest.Verify(soon(t)))
		if got := rest.machine.counter("k"); got != 2*filling {
			t.Errorf("%s leads with %d of %d changes", rest.id, got, 2*filling)
		}
	})
}

func running(of ...*member) (all []*member) {
	for _, m := range of {
		if m.node != nil {
			all = append(all, m)
		}
	}
	return all
}
