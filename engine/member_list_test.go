package engine_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/membership"
)

// lists holds the list of members that every machine of a cluster has, as if an op had written it, and the position
// of each member's view.
type lists struct {
	mu      sync.Mutex
	list    []membership.Listed
	changed chan struct{}
	blind   map[string]bool // members whose view stands still at 1
}

func newLists() *lists { return &lists{changed: make(chan struct{}), blind: map[string]bool{}} }

func (l *lists) set(of ...*member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
	for _, m := range of {
		l.list = append(l.list, membership.Listed{ID: m.id, Address: m.address})
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lists) see(id string, sees bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blind[id] = !sees
}

func (l *lists) tune(c *engine.Config) {
	c.List = func() ([]membership.Listed, <-chan struct{}) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.list, l.changed
	}
	id, m := c.Transport.ID(), c.Machine
	c.View = func() uint64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.blind[id] {
			return 0
		}
		return m.Applied().Index
	}
}

// shape prints the members that a leader knows; those with a vote are in capitals.
func shape(m *member) string {
	var all []string
	for _, of := range m.Members() {
		if of.Voter {
			all = append(all, strings.ToUpper(of.ID))
		} else {
			all = append(all, of.ID)
		}
	}
	return strings.Join(all, "")
}

// inList runs a cluster of one voter with a list in virtual time, and three more members that wait to be
// added.
func inList(t *testing.T, f func(c *cluster, l *lists), tune ...func(*engine.Config)) {
	l := newLists()
	virtual(t, 1, func(t *testing.T, c *cluster) {
		for range 3 {
			c.add().start()
		}
		f(c, l)
	}, append(tune, l.tune)...)
}

// TestTheLeaderFollowsTheList checks that the leader adds and removes members towards the list, and transfers
// leadership if it is not listed itself.
func TestTheLeaderFollowsTheList(t *testing.T) {
	inList(t, func(c *cluster, l *lists) {
		a, b, d := c.members[0], c.members[1], c.members[3]
		l.set(c.members[:3]...)
		c.until("three have a vote", func() bool { return shape(a) == "ABC" })
		l.set(b, c.members[2], d)
		c.until("a has moved to d", func() bool {
			return slices.ContainsFunc(c.others(a), func(m *member) bool { return m.Leader() && shape(m) == "BCD" })
		})
		l.set(d)
		c.until("d is alone", func() bool { return d.Leader() && shape(d) == "D" })
		d.node.add(c.t, "k")
	})
}

// TestTheViewMustCatchUp checks that a learner gets no vote before its view has caught up.
func TestTheViewMustCatchUp(t *testing.T) {
	inList(t, func(c *cluster, l *lists) {
		a, b := c.members[0], c.members[1]
		a.node.add(c.t, "k")
		l.see(b.id, false)
		l.set(b)
		c.until("b is a learner that has the log", func() bool {
			return shape(a) == "Ab" && b.Applied().Index >= a.Applied().Index && a.Members()[1].LastContact >= 0
		})
		time.Sleep(time.Minute) // virtual
		if got := shape(a); got != "Ab" {
			t.Errorf("after a minute the group is %s", got)
		}
		l.see(b.id, true)
		c.until("b is alone", func() bool { return b.Leader() && shape(b) == "B" })
	})
}

// TestADeadVoterIsReplaced checks that a dead member keeps its vote while it is listed, and is replaced when
// it is not.
func TestADeadVoterIsReplaced(t *testing.T) {
	inList(t, func(c *cluster, l *lists) {
		a, b, d := c.members[0], c.members[1], c.members[3]
		l.set(c.members[:3]...)
		c.until("three have a vote", func() bool { return shape(a) == "ABC" })
		c.members[2].stop()
		time.Sleep(time.Minute) // virtual
		if got := shape(c.leaderOf(a, b)); got != "ABC" {
			t.Errorf("after a minute the group is %s", got)
		}
		l.set(a, b, d)
		c.until("d has replaced c", func() bool { return shape(c.leaderOf(a, b, d)) == "ABD" })
	})
}

// TestTheListReplacesTheAutopilot checks that the autopilot promotes and removes nobody while there is a
// list.
func TestTheListReplacesTheAutopilot(t *testing.T) {
	inList(t, func(c *cluster, l *lists) {
		a, b := c.members[0], c.members[1]
		l.set(c.members[:3]...)
		l.see(b.id, false)
		c.until("both are learners", func() bool { return shape(a) == "Abc" })
		time.Sleep(time.Minute) // virtual
		if got := shape(a); got != "Abc" {
			t.Errorf("the autopilot has made %s", got)
		}
		l.set()
		c.until("without a list the autopilot goes on", func() bool { return shape(a) == "ABC" })
	}, func(c *engine.Config) { c.Autopilot = &engine.Autopilot{} })
}

// TestMembersLevel checks that the members tell their leader the highest feature level that they understand.
func TestMembersLevel(t *testing.T) {
	levels := map[string]uint32{"a": 5, "b": 3, "c": 4}
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.until("the leader knows the least level", func() bool {
			level, ok := leader.MembersLevel()
			return ok && level == 3
		})
		for _, m := range c.others(leader) {
			if level, ok := m.MembersLevel(); ok {
				t.Errorf("a follower knows level %d", level)
			}
		}
	}, func(c *engine.Config) { c.MaxLevel = levels[c.Transport.ID()] })
}

// TestALearnerCountsForTheLevel checks that the level of a group does not rise above the level of a member that is on
// its way into the group, nor before that member has answered.
func TestALearnerCountsForTheLevel(t *testing.T) {
	levels := map[string]uint32{"a": 5, "b": 3, "c": 4, "d": 4}
	inList(t, func(c *cluster, l *lists) {
		a, b, d := c.members[0], c.members[1], c.members[3]
		l.see(b.id, false)
		d.stop()
		l.set(a, b, d)
		c.until("b and d are learners", func() bool { return shape(a) == "Abd" })
		time.Sleep(time.Minute) // virtual
		if level, ok := a.MembersLevel(); ok {
			t.Errorf("the level is %d, and d has not answered", level)
		}
		l.set(a)
		c.until("a is alone", func() bool { return shape(a) == "A" })
		l.set(b)
		c.until("the level is the learner's", func() bool {
			level, ok := a.MembersLevel()
			return shape(a) == "Ab" && ok && level == 3
		})
	}, func(c *engine.Config) { c.MaxLevel = levels[c.Transport.ID()] })
}

// TestARemovedMemberRefusesAtOnce checks that a member that the leader has removed does not let requests wait for a
// leader, because it will not hear of one, and that it serves again once it is added again.
func TestARemovedMemberRefusesAtOnce(t *testing.T) {
	inList(t, func(c *cluster, l *lists) {
		a, b := c.members[0], c.members[1]
		l.set(c.members[:3]...)
		c.until("three have a vote", func() bool { return shape(a) == "ABC" })
		c.must(b.verify(time.Minute))
		l.set(a)
		c.until("a is alone", func() bool { return shape(a) == "A" })
		began := time.Now()
		if _, err := b.try(time.Hour, op{key: "k"}); api.CodeOf(err) != api.LeaderUnavailable || !strings.Contains(err.Error(), "removed") {
			t.Errorf("a write: %v", err)
		}
		if err := b.verify(time.Hour); api.CodeOf(err) != api.LeaderUnavailable || !strings.Contains(err.Error(), "removed") {
			t.Errorf("a read: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the refusals took %v", took)
		}
		l.set(c.members[:3]...)
		c.until("three have a vote again", func() bool { return shape(a) == "ABC" })
		c.must(b.verify(time.Minute))
	})
}
