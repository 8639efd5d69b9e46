package engine_test

import (
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport/memnet"
)

// An entry that only one member has may have been acknowledged by members that are lost. Replay applies it, and all others
// that the machine had not flushed. It can be repeated. The group then goes on alone in its new history, and is not opened
// in the earlier one.
func TestAReplayAppliesTheWholeLog(t *testing.T) {
	t.Parallel()
	on := memnet.New()
	c := newCluster(t, on, 3)
	c.leader().add(t, "k")
	var alone *member
	for appended := false; !appended; on.Heal() { // a leader that is cut off for too long before it proposes appends nothing
		alone = c.leader()
		before, err := alone.Status()
		c.must(err)
		on.Isolate(alone.id)
		if _, _, err := alone.propose(add("unknown")); err == nil {
			t.Fatal("a leader without a majority has acknowledged an op")
		}
		after, err := alone.Status()
		c.must(err)
		appended = after.Last > before.Last
		if appended {
			alone.kill()
		}
	}

	next := entry.Incarnation{7}
	replay := func(of *entry.Incarnation) (*machine, error) {
		m := openMachine(t, alone.dir)
		return m, engine.Replay(engine.Config{Dir: alone.dir, Group: "test/0", Incarnation: of, Machine: m, Logger: quiet(), Tuning: engine.Tuning{Logs: c.logs()}})
	}
	_, err := replay(&next)
	wantCode(t, err, api.StateConflict)
	for range 2 {
		m, err := replay(c.history)
		c.must(err)
		if m.counter("k") != 1 || m.counter("unknown") != 1 {
			t.Fatalf("the replayed machine has %+v", m.now)
		}
	}

	m := openMachine(t, alone.dir)
	m.now.At.Incarnation, m.now.Configuration, m.now.ConfigurationIndex = next, nil, 0
	c.must(m.Flush())
	for range 2 {
		c.must(engine.Refound(alone.dir, next))
	}
	in := func(of entry.Incarnation) func(*engine.Config) {
		return func(conf *engine.Config) { conf.NodeID, conf.Incarnation, conf.Logs = alone.id, &of, c.logs() }
	}
	_, err = tryOpenNode(t, alone.dir, in(*c.history))
	wantCode(t, err, api.Conflict)
	for adds := range int64(2) { // a restart too
		n := openNode(t, alone.dir, in(next))
		if got, _ := n.add(t, "unknown"); got != 2+adds {
			t.Errorf("after %d additions the counter is %d", adds+1, got)
		}
		n.shut(t)
	}
}
