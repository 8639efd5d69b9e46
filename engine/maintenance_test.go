package engine_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/pipeline"
	"github.com/corvo/corvo/engine/raftlog/faultlog"
	"github.com/corvo/corvo/engine/transport/memnet"
)

func autopilot(c *engine.Config) {
	c.Autopilot = &engine.Autopilot{StableAfter: 5 * time.Second, RemoveAfter: 30 * time.Second}
}

func TestAutopilotPromotesAndRemoves(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		added := time.Now()
		for range 2 {
			m := c.add()
			m.start()
			c.must(c.leader().AddLearner(soon(t), m.id, m.address))
		}
		c.until("five voters", func() bool { return voters(c.leader()) == 5 })
		if took := time.Since(added); took < 5*time.Second || took > 15*time.Second {
			t.Errorf("learners had their votes after %v", took)
		}
		leader := c.leader()
		rest := c.others(leader)
		rest[0].kill()
		rest[1].kill()
		killed := time.Now()
		c.until("one is removed", func() bool { return len(leader.Members()) == 4 })
		if took := time.Since(killed); took < 30*time.Second {
			t.Errorf("removed after %v", took)
		}
		c.until("the other too", func() bool { return len(leader.Members()) == 3 })
		rest[2].kill()
		time.Sleep(10 * time.Minute)
		if got := len(leader.Members()); got != 3 {
			t.Errorf("%d of the last three members are left", got)
		}
		_, err := leader.try(time.Minute, add("k"))
		c.must(err)
	}, autopilot)
}

func voters(m *member) (n int) {
	for _, of := range m.Members() {
		if of.Voter {
			n++
		}
	}
	return n
}

// TestMembersShowWhoLags checks that the leader shows the contact and the lag of a member.
func TestMembersShowWhoLags(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		away := c.others(leader)[0]
		time.Sleep(3 * time.Second)
		away.kill()
		time.Sleep(10 * time.Second)
		s, err := leader.Status()
		c.must(err)
		if s.LeaderID != leader.id || !s.Voter || len(s.Members) != 3 {
			t.Errorf("status %+v", s)
		}
		if s.Commit != s.Last {
			t.Errorf("%d of %d entries are committed", s.Commit, s.Last)
		}
		for _, m := range s.Members {
			switch {
			case m.ID == away.id && (m.LastContact < 9*time.Second || m.LastContact > 12*time.Second):
				t.Errorf("who is away was heard %v ago", m.LastContact)
			case m.ID != away.id && (m.LastContact > 2*time.Second || m.LastContact < 0 || m.Lag > 0):
				t.Errorf("who is there: %+v", m)
			}
		}
	})
}

func TestWrongClockGivesUpLeadership(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		time.Sleep(5 * time.Second) // clocks are compared
		leader.off.Store(int64(time.Minute))
		next := c.leaderOf(c.others(leader)...)
		time.Sleep(time.Minute)
		if !next.Leader() {
			t.Error("leadership did not stay")
		}
		if ahead := next.ClockNs() - time.Now().UnixNano(); ahead > int64(2*time.Minute) {
			t.Errorf("entries are %v ahead", time.Duration(ahead))
		}
	})
}

// TestWrongClockAloneLeadsOn checks that a leader that nobody can replace leads on with its wrong clock.
func TestWrongClockAloneLeadsOn(t *testing.T) {
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		c.others(leader)[0].kill()
		time.Sleep(5 * time.Second)
		leader.off.Store(int64(time.Minute))
		time.Sleep(time.Minute)
		if !leader.Leader() {
			t.Error("one other clock is no majority")
		}
	})
}

// TestOverloadIsRefused sends ten times the leader's capacity to the leader and through a follower, while its
// disk is slow. The excess must be refused at once as OVERLOADED with a time to wait, and the waiting ops
// must stay within the bounds.
func TestOverloadIsRefused(t *testing.T) {
	const bound = 64
	var faults faultlog.Faults
	virtual(t, 3, func(t *testing.T, c *cluster) {
		leader := c.leader()
		f := c.others(leader)[0]
		faults.Delay(time.Second)
		var pushing sync.WaitGroup
		var mu sync.Mutex
		done, refused := 0, 0
		for i := range 10 * bound {
			through := []*member{leader, f}[i%2]
			pushing.Go(func() {
				_, err := through.try(5*time.Minute, once("k", fmt.Sprint(i)))
				mu.Lock()
				defer mu.Unlock()
				e, _ := err.(*api.Error) //nolint:errorlint // the engine answers nothing else
				switch {
				case err == nil:
					done++
				case e.Code == api.Overloaded && e.RetryAfter > 0:
					refused++
				default:
					t.Error(err)
				}
			})
		}
		most := 0
		for range 1000 {
			time.Sleep(time.Millisecond)
			s, err := leader.Status()
			c.must(err)
			most = max(most, s.BacklogOps)
		}
		pushing.Wait()
		if most > bound || done == 0 || refused < 10*bound-4*bound {
			t.Errorf("%d done, %d refused; %d waited, the bound is %d", done, refused, most, bound)
		}
		c.must(leader.Verify(soon(t)))
		if got := leader.machine.counter("k"); got != int64(done) {
			t.Errorf("%d done, %d found", done, got)
		}
	}, func(conf *engine.Config) {
		conf.Limits = pipeline.Limits{BacklogOps: bound, EntryOps: 8}
		if conf.Transport.ID() == "a" {
			conf.Logs.Wrap = faults.Wrap
		}
	})
}

// TestOverloadTakesBoundedMemory checks that the waiting ops take bounded memory: at most three copies of
// each of the two backlogs, although 160 MiB are sent.
func TestOverloadTakesBoundedMemory(t *testing.T) { // alone: it measures the process
	const size, backlog, pushed = 64 << 10, 8 << 20, 2560
	const bound = 3 * 2 * backlog
	var faults faultlog.Faults
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, memnet.New(), 3, func(conf *engine.Config) {
			conf.Limits = pipeline.Limits{BacklogBytes: backlog, EntryBytes: 1 << 20}
			if conf.Transport.ID() == "a" {
				conf.Logs.Wrap = faults.Wrap
			}
		})
		f := c.members[1]
		c.must(f.Transfer(soon(t), "a"))
		before := liveHeap()
		faults.Delay(5 * time.Second)
		var pushing sync.WaitGroup
		var done, refused atomic.Int64
		for i := range pushed {
			pushing.Go(func() {
				_, err := c.members[i%2].try(10*time.Minute, add(strings.Repeat(string(rune('a'+i%26)), size)))
				switch {
				case err == nil:
					done.Add(1)
				case api.CodeOf(err) == api.Overloaded:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if grown := liveHeap() - before; grown > bound {
			t.Errorf("the heap grew by %d MiB, the bound is %d", grown>>20, bound>>20)
		}
		faults.Delay(0)
		pushing.Wait()
		if done.Load() == 0 || refused.Load() < pushed/2 {
			t.Errorf("%d done, %d refused", done.Load(), refused.Load())
		}
	})
}

// liveHeap returns the number of reachable bytes.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSlowDisk checks that a slow disk slows a group down only on the leader.
func TestSlowDisk(t *testing.T) {
	for _, where := range []string{"leader", "follower"} {
		t.Run(where, func(t *testing.T) {
			faults := map[string]*faultlog.Faults{"a": {}, "b": {}, "c": {}}
			virtual(t, 3, func(t *testing.T, c *cluster) {
				slow := c.leader()
				if where == "follower" {
					slow = c.others(slow)[0]
				}
				faults[slow.id].Delay(300 * time.Millisecond)
				begun := time.Now()
				for i := range 20 {
					_, _, err := c.members[i%3].propose(once("k", fmt.Sprint(i)))
					c.must(err)
				}
				if took := time.Since(begun); where == "follower" && took > 12*time.Second {
					t.Errorf("20 writes took %v", took)
				}
				for _, m := range c.members {
					c.must(m.Verify(soon(t)))
					if got := m.machine.counter("k"); got != 20 {
						t.Errorf("%s has %d of 20", m.id, got)
					}
				}
			}, func(conf *engine.Config) { conf.Logs.Wrap = faults[conf.Transport.ID()].Wrap })
		})
	}
}
