package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog/faultlog"
)

// A leader notes a position, loses leadership to another that acknowledges a
// write, and leads again before it has made sure: the position is too old by then.
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

// The op was applied. That its result is too large to be sent must not pass for a
// refusal, after which nothing would have been written.
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

// A member whose replica has stopped runs and answers, and counts as dead: no vote
// that works may go for it.
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

// Members come back under other addresses, all but the leader at once. The group
// goes on and records where they are.
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

// The autopilot removes a member that is only cut off, and tells it when it is
// back. The same member with an empty disk can join again.
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

// A member holds as many writes on their way to the leader as its own backlog
// would, and not one more; each that is answered makes room for another.
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
