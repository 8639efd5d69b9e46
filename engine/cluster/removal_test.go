package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/transport"
)

// roll is a group that only has a list of members.
type roll struct {
	Group
	leader  string
	members []engine.Member
	later   []engine.Member // after half of aliveWithin; nil = unchanged
	since   time.Time
	fails   error // returned by Remove
	removed []string
}

func (r *roll) LeaderID() string { return r.leader }
func (r *roll) Members() []engine.Member {
	if r.later != nil && time.Since(r.since) > aliveWithin/2 {
		return r.later
	}
	return r.members
}

func (r *roll) Remove(_ context.Context, id string) error {
	if r.fails != nil {
		return r.fails
	}
	r.removed = append(r.removed, id)
	r.members = slices.DeleteFunc(slices.Clone(r.members), func(m engine.Member) bool { return m.ID == id })
	return nil
}

// mute is a wire that reaches no peer.
type mute struct{ *machine }

func (mute) Know(string, string) {}
func (mute) Call(context.Context, transport.Peer, transport.Kind, []byte) ([]byte, error) {
	return nil, errNobody
}

func rolls(groups ...*roll) *Cluster {
	c := &Cluster{wire: mute{}, cfg: Config{NodeID: "a", Logger: silent}.withDefaults()}
	c.record = record{NodeID: "a", Phase: member}
	c.cfg.persist = func(string, *record) error { return nil }
	for _, g := range groups {
		g.leader, g.since = "a", time.Now()
		c.groups = append(c.groups, g)
	}
	return c
}

// voters returns members with the given times since their last contact; "a" leads.
func voters(heard ...time.Duration) (all []engine.Member) {
	for i, d := range heard {
		all = append(all, engine.Member{ID: string(rune('a' + i)), Voter: true, LastContact: d})
	}
	return all
}

// TestNothingIsRemovedWhereAnyShardWouldStop checks that a node stays in all shards if one of them needs it.
func TestNothingIsRemovedWhereAnyShardWouldStop(t *testing.T) {
	t.Parallel()
	const gone = time.Hour
	learner := append(voters(0, gone), engine.Member{ID: "c", LastContact: gone})
	for name, c := range map[string]struct {
		last *roll // the second shard; the first can do without the node
		want api.Code
	}{
		"all are there":              {&roll{members: voters(0, 0, 0)}, ""},
		"the node itself is gone":    {&roll{members: voters(0, 0, gone)}, ""},
		"another is gone":            {&roll{members: voters(0, gone, 0)}, api.StateConflict},
		"heard just too long ago":    {&roll{members: voters(0, aliveWithin, 0)}, api.StateConflict},
		"heard just in time":         {&roll{members: voters(0, aliveWithin-1, 0)}, ""},
		"it has no vote":             {&roll{members: learner}, ""},
		"it is no member there":      {&roll{members: voters(0, gone)}, ""},
		"one of five is gone":        {&roll{members: voters(0, gone, 0, 0, 0)}, ""},
		"two of five are gone":       {&roll{members: voters(0, gone, 0, gone, 0)}, api.StateConflict},
		"a new leader hears of them": {&roll{members: voters(0, -1, 0), later: voters(0, 0, 0)}, ""},
		"a new leader never does":    {&roll{members: voters(0, -1, 0)}, api.StateConflict},
		"a new leader needs not to":  {&roll{members: voters(0, -1, 0, 0, 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				first := &roll{members: voters(0, 0, 0, 0, 0)}
				c.last.since = time.Now()
				err := rolls(first, c.last).Remove(t.Context(), "c")
				if api.CodeOf(err) != c.want {
					t.Fatalf("%v, want %q", err, c.want)
				}
				if err != nil && (len(first.removed)+len(c.last.removed) > 0 || !strings.Contains(err.Error(), "shard 1")) {
					t.Errorf("%v: %v and %v were done", err, first.removed, c.last.removed)
				}
				if err == nil && (len(first.removed) != 1 || len(c.last.removed) != 1) {
					t.Errorf("%v and %v were done", first.removed, c.last.removed)
				}
			})
		})
	}
}

// TestARemovalIsRepeated checks that an interrupted removal is finished when it is requested again.
func TestARemovalIsRepeated(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken off")
	first, second := &roll{members: voters(0, 0, 0)}, &roll{members: voters(0, 0, 0), fails: broken}
	c := rolls(first, second)
	if err := c.Remove(t.Context(), "c"); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	second.fails = nil
	if err := c.Remove(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if len(second.removed) != 1 || len(second.members) != 2 {
		t.Errorf("%+v", second)
	}
	if err := c.Remove(t.Context(), "c"); api.CodeOf(err) != api.NotFound {
		t.Errorf("a third time: %v", err)
	}
}

// TestASecondClusterOfTheSameSecretIsSeen checks that a founder that was bootstrapped again and its former
// members log each other.
func TestASecondClusterOfTheSameSecretIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, founder, m := two(t, Config{})
		said := make(chan string, 8)
		c, err := Open(t.Context(), m.config(Config{Bootstrap: true}))
		if err != nil {
			t.Fatal(err)
		}
		founder.foreignLog.log = func(why string) { said <- "founder: " + why }
		c.foreignLog.log = func(why string) { said <- "other: " + why }
		founder.survey(t.Context(), []string{c.Address()}) // the other is told
		founder.checkCluster("node-1", c.ID())
		founder.checkCluster("node-1", c.ID()) // not repeated so soon
		founder.checkCluster("node-1", founder.ID())
		founder.checkCluster("node-1", "")
		close(said)
		var all []string
		for why := range said {
			all = append(all, why)
		}
		if len(all) != 2 || !strings.HasPrefix(all[0], `other: node "node-0" is in cluster `+founder.ID()) || !strings.HasPrefix(all[1], `founder: node "node-1" is in cluster `+c.ID()) {
			t.Errorf("%q", all)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
