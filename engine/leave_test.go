package engine_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog/faultlog"
)

// TestReadIndexOfAnEarlierTerm lets a leader note a position, lose leadership to another that acknowledges a
// write, and lead again before it has confirmed its term. The position is then too old.
func TestReadIndexOfAnEarlierTerm(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.members[0], c.members[1]
		c.must(a.Transfer(soon(t), a.id))
		c.must(a.Verify(soon(t)))
		release := a.HoldConfirm()
		type answer struct {
			at  engine.Position
			err error
		}
		asked := make(chan answer)
		go func() {
			at, err := a.AnswerIndex(soon(t))
			asked <- answer{at, err}
		}()
		time.Sleep(time.Millisecond) // it has noted the position
		c.must(a.Transfer(soon(t), b.id))
		_, written, err := b.propose(add("k"))
		c.must(err)
		c.must(b.Transfer(soon(t), a.id))
		c.leaderOf(a)
		release()
		if got := <-asked; got.err == nil && got.at.Index < written.Index {
			t.Errorf("entry %d is to be read, %d was acknowledged before", got.at.Index, written.Index)
		}
	})
}

// TestResultTooLargeToBeSent applies an op whose result is too large for a message. The error must not look
// like a refusal, after which nothing would have been written.
func TestResultTooLargeToBeSent(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		_, at, err := c.others(leader)[0].propose(op{number: opLarge, key: "k"})
		wantCode(t, err, api.Internal)
		if at.Index == 0 || leader.machine.counter("k") != 1 {
			t.Errorf("at %v: %v; applied %d times", at, err, leader.machine.counter("k"))
		}
	})
}

// TestStoppedMemberIsNotAlive checks that a member whose replica has stopped counts as dead although it
// answers, so that no working voter is removed in its favour.
func TestStoppedMemberIsNotAlive(t *testing.T) {
	faults := map[string]*faultlog.Faults{"a": {}, "b": {}, "c": {}}
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		rest := c.others(leader)
		faults[rest[0].id].FailAppend(1)
		_, _, err := leader.propose(once("k", "1"))
		c.must(err)
		<-rest[0].Failed()
		wantCode(t, leader.Remove(soon(t), rest[1].id), api.StateConflict)
		c.must(leader.Remove(soon(t), rest[0].id))
		_, err = leader.try(time.Minute, once("k", "2"))
		c.must(err)
	}, func(conf *engine.Config) { conf.Logs.Wrap = faults[conf.Transport.ID()].Wrap })
}

// TestMembersMove restarts all members but the leader under other addresses at once. The group must go on and
// record the addresses.
func TestMembersMove(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		rest := c.others(leader)
		for _, m := range rest {
			m.kill()
			m.address = ""
		}
		for _, m := range rest {
			m.start()
		}
		for i, m := range c.members {
			c.must(m.Ready(soon(t)))
			_, _, err := m.propose(once("k", fmt.Sprint(i)))
			c.must(err)
		}
		for _, m := range c.members {
			c.until("addresses are right", func() bool {
				for i, of := range m.Members() {
					if of.Address != c.members[i].address {
						return false
					}
				}
				return true
			})
		}
	})
}

// TestAutopilotTellsWhoIsRemoved lets the autopilot remove a member that is only cut off. The member must be
// notified when it is back. With an empty disk, it can join again.
func TestAutopilotTellsWhoIsRemoved(t *testing.T) {
	virtual(t, 4, func(t *testing.T, c *cluster) {
		leader := c.leader()
		gone := c.others(leader)[2]
		c.net.Isolate(gone.id)
		c.until("it is removed", func() bool { return len(leader.Members()) == 3 })
		if s, err := gone.Status(); err != nil || s.State == "Removed" {
			t.Errorf("it knows already: %s, %v", s.State, err)
		}
		c.net.Heal()
		c.until("it knows", func() bool {
			s, err := gone.Status()
			c.must(err)
			return s.State == "Removed"
		})
		c.must(leader.AddLearner(soon(t), gone.id, gone.address))
		c.until("it is a member again", func() bool {
			s, err := gone.Status()
			c.must(err)
			return s.State == "Follower" && s.Voter
		})
		c.must(gone.Verify(soon(t)))
	}, autopilot)
}

// TestForwardsAreBounded checks that a member forwards as many writes as its own backlog would hold and not
// one more, and that each answer makes room for another.
func TestForwardsAreBounded(t *testing.T) {
	const bound = 8
	var faults faultlog.Faults
	virtual(t, 3, func(t *testing.T, c *cluster) {
		f := c.others(c.members[0])[0]
		c.must(f.Transfer(soon(t), "a"))
		faults.Delay(time.Second)
		done := make(chan error, bound)
		for i := range bound {
			go func() {
				_, err := f.try(time.Minute, once("k", fmt.Sprint(i)))
				done <- err
			}()
		}
		time.Sleep(100 * time.Millisecond)
		_, err := f.try(time.Minute, once("k", "too many"))
		wantCode(t, err, api.Overloaded)
		if engine.Unknown(err) || err.(*api.Error).RetryAfter == 0 { //nolint:errorlint // as wantCode
			t.Errorf("one too many: %v", err)
		}
		c.must(<-done)
		_, err = f.try(time.Minute, once("k", "room"))
		c.must(err)
		for range bound - 1 {
			c.must(<-done)
		}
		c.must(f.Verify(soon(t)))
		if got := f.machine.counter("k"); got != bound+1 {
			t.Errorf("%d of %d changes", got, bound+1)
		}
	}, func(conf *engine.Config) {
		conf.Limits = pipeline.Limits{BacklogOps: bound}
		if conf.Transport.ID() == "a" {
			conf.Logs.Wrap = faults.Wrap
			conf.Limits.BacklogOps = 100
		}
	})
}

// TestAMemberRejoinsElsewhere removes a member and adds it again, with an empty disk and another address, while
// its old address accepts connections and does not answer. The leader must use the address that it was told.
func TestAMemberRejoinsElsewhere(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		m := c.others(leader)[0]
		m.kill()
		var port int
		if _, err := fmt.Sscanf(m.address, m.id+":%d", &port); err != nil {
			t.Fatal(err)
		}
		mute, err := c.net.Listen(m.id, port)
		c.must(err)
		defer mute.Close()
		c.must(leader.Remove(soon(t), m.id))
		c.must(os.RemoveAll(m.dir))
		m.address = ""
		m.start()
		c.must(leader.AddLearner(soon(t), m.id, m.address))
		c.must(leader.Promote(soon(t), m.id))
		c.must(m.Ready(soon(t)))
	})
}
