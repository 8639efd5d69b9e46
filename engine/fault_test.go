package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/raftlog/faultlog"
)

// diskFaults lists the ways a log's disk fails. Each fault occurs at the third append at the latest.
var diskFaults = map[string]struct {
	strike func(*faultlog.Faults)
	cause  error
}{
	"failed append": {func(f *faultlog.Faults) { f.FailAppend(3) }, faultlog.ErrInjected},
	"failed fsync":  {func(f *faultlog.Faults) { f.FailSync(3) }, faultlog.ErrInjected},
	"full disk":     {func(f *faultlog.Faults) { f.FillDisk(true) }, faultlog.ErrDiskFull},
}

// loadUntilItStops proposes from several goroutines until each is told that the replica has stopped. It
// returns how often each key was acknowledged.
func (n *node) loadUntilItStops(t testing.TB) map[string]int64 {
	t.Helper()
	const callers = 16
	acknowledged := map[string]int64{}
	var mu sync.Mutex
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			key := fmt.Sprint("k", i)
			for {
				value, _, err := engine.Propose[int64](soon(t), n.Group, add(key))
				if err != nil {
					if api.CodeOf(err) != api.Unhealthy {
						t.Errorf("%s: %v, want %s", key, err, api.Unhealthy)
					}
					return
				}
				mu.Lock()
				acknowledged[key] = value
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return acknowledged
}

// kept checks that every acknowledged change is there, and at most one unacknowledged change of each caller.
func (n *node) kept(t testing.TB, acknowledged map[string]int64) {
	t.Helper()
	for key, want := range acknowledged {
		if got := n.machine.counter(key); got < want || got > want+1 {
			t.Errorf("%s is %d, %d was acknowledged", key, got, want)
		}
	}
}

// TestFailingDiskStopsTheReplica makes writes to the log fail. All waiting and later requests, reads and
// writes, must be told that the replica has stopped, and the state must not change. Opened again on a working
// disk, it must have every acknowledged change.
func TestFailingDiskStopsTheReplica(t *testing.T) {
	t.Parallel()
	for name, fault := range diskFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var faults faultlog.Faults
			dir := t.TempDir()
			wrapped := func(c *engine.Config) { c.Logs.Wrap = faults.Wrap }
			n := openNode(t, dir, wrapped)
			n.add(t, "before")
			fault.strike(&faults)
			acknowledged := n.loadUntilItStops(t)
			acknowledged["before"] = 1
			if !errors.Is(n.Err(), fault.cause) {
				t.Errorf("it has stopped for %v, want %v", n.Err(), fault.cause)
			}
			at := n.Applied()
			_, _, err := engine.Propose[int64](soon(t), n.Group, add("after"))
			wantCode(t, err, api.Unhealthy)
			wantCode(t, n.Verify(soon(t)), api.Unhealthy)
			wantCode(t, n.Snapshot(), api.Unhealthy)
			for ctx := soon(t); n.Leader(); { // the waiting requests are answered first
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
					t.Fatal("it still says that it leads")
				}
			}
			if got := n.Applied(); got != at || n.machine.counter("after") != 0 {
				t.Errorf("it went on from %v to %v", at, got)
			}
			_ = n.Close(soon(t)) // Close may return the reason again

			faults.FillDisk(false)
			n = openNode(t, dir, wrapped)
			n.kept(t, acknowledged)
			n.add(t, "after")
		})
	}
}

// TestFailingDiskOfAMember makes the disk of one of three members fail, of the leader or of a follower. The
// others must go on with every acknowledged change. Removed and with an empty directory, the member must be
// able to join again.
func TestFailingDiskOfAMember(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"leader", "follower"} {
		for name, fault := range diskFaults {
			t.Run(where+", "+name, func(t *testing.T) {
				t.Parallel()
				faults := map[string]*faultlog.Faults{"a": {}, "b": {}, "c": {}}
				c := newCluster(t, nil, 3, calm, func(conf *engine.Config) { conf.Logs.Wrap = faults[conf.Transport.ID()].Wrap })
				// The first member cannot join its own group again, so another one fails.
				c.must(c.members[0].Transfer(soon(t), "b"))
				c.until("b leads", func() bool { return c.members[1].Leader() })
				bad := c.members[1]
				if where == "follower" {
					bad = c.members[2]
				}
				rest := c.others(bad)
				fault.strike(faults[bad.id])
				acknowledged := c.writeUntilStopped(bad)
				if !errors.Is(bad.Err(), fault.cause) {
					t.Errorf("it has stopped for %v, want %v", bad.Err(), fault.cause)
				}
				_, _, err := bad.propose(once("k", "refused"))
				wantCode(t, err, api.Unhealthy)

				next := c.leaderOf(rest...)
				for i, m := range rest {
					_, _, err := m.propose(once("k", fmt.Sprint("after", i)))
					c.must(err)
					acknowledged++
				}
				for _, m := range rest {
					c.wantAtLeast(m, acknowledged)
				}

				faults[bad.id].FillDisk(false)
				c.rejoinEmpty(bad, next)
				c.wantAtLeast(bad, acknowledged)
				if got, want := bad.machine.counter("k"), next.machine.counter("k"); got != want {
					t.Errorf("the one that came back has %d, the leader %d", got, want)
				}
			})
		}
	}
}

// writeUntilStopped writes through the member until it has stopped, and returns the number of acknowledged
// writes.
func (c *cluster) writeUntilStopped(m *member) (acknowledged int64) {
	c.t.Helper()
	for i := 0; m.Err() == nil; i++ {
		_, _, err := m.propose(once("k", fmt.Sprint("w", i)))
		switch {
		case err == nil:
			acknowledged++
		case api.CodeOf(err) != api.Unhealthy:
			c.t.Fatalf("write %d: %v", i, err)
		}
	}
	return acknowledged
}

func (c *cluster) wantAtLeast(m *member, acknowledged int64) {
	c.t.Helper()
	c.must(m.Verify(soon(c.t)))
	if got := m.machine.counter("k"); got < acknowledged {
		c.t.Errorf("%s has %d changes, %d were acknowledged", m.id, got, acknowledged)
	}
}

// rejoinEmpty does what an operator does with a member that cannot be trusted.
func (c *cluster) rejoinEmpty(m *member, leader *member) {
	c.t.Helper()
	_ = m.Close(soon(c.t)) // Close may return the reason again
	c.must(m.transport.Close())
	m.node = nil
	c.must(leader.Remove(soon(c.t), m.id))
	c.must(os.RemoveAll(m.dir))
	m.address = "" // a new one, because another process may have been given the port
	m.start()
	c.must(leader.AddLearner(soon(c.t), m.id, m.address))
	c.must(leader.Promote(soon(c.t), m.id))
	c.must(m.Ready(soon(c.t)))
}

// TestLostLogIsRefused checks that a missing log is refused at every start, with the remedy.
func TestLostLogIsRefused(t *testing.T) {
	t.Parallel()
	for name, pattern := range map[string]string{"all of it": "log", "its segments": "log/*.wal"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			n := openNode(t, dir)
			n.add(t, "k")
			n.crash(t)
			lost, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil || len(lost) == 0 {
				t.Fatalf("%v, %v", lost, err)
			}
			for _, name := range lost {
				if err := os.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if _, err := tryOpenNode(t, dir); err == nil || !strings.Contains(err.Error(), "restore") {
					t.Errorf("opened without its log: %v", err)
				}
			}
		})
	}
}

// TestUnreadableEntryStopsTheReplica makes a member unable to read the entry it is about to apply. It must
// stop alone, without the process or the other members. It must not write anything, so that it can continue
// once the disk works.
func TestUnreadableEntryStopsTheReplica(t *testing.T) {
	t.Parallel()
	faults := map[string]*faultlog.Faults{"a": {}, "b": {}, "c": {}}
	c := newCluster(t, nil, 3, calm, func(conf *engine.Config) { conf.Logs.Wrap = faults[conf.Transport.ID()].Wrap })
	f := c.others(c.leader())[0]
	faults[f.id].FailRead(1)
	n := 0
	for ; f.Err() == nil; n++ {
		if n == 10_000 {
			t.Fatal("a follower reads nothing of its log")
		}
		_, _, err := c.leader().propose(once("k", fmt.Sprint(n)))
		c.must(err)
	}
	_, _, err := f.propose(once("k", "x"))
	wantCode(t, err, api.Unhealthy)
	_, _, err = c.leader().propose(once("k", "after"))
	c.must(err)
}
