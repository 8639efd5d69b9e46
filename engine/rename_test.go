package engine_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
)

// named opens a group under a node id, and renames the directory of the node "old".
func named(id string) func(*engine.Config) {
	return func(c *engine.Config) {
		c.NodeID, c.TrailingBytes = id, -1
		c.Rename = func(old string) bool { return old == "old" }
	}
}

// TestRenameOfTheOnlyVoter checks that a renamed directory keeps its content and its incarnation and is not
// renamed again: neither with a log that holds every entry, nor with a log that a snapshot has emptied, nor
// after a crash between the changes of the log and of group.json.
func TestRenameOfTheOnlyVoter(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*testing.T, *node){
		"with its log":     func(*testing.T, *node) {},
		"after a snapshot": func(t *testing.T, n *node) { snapshot(t, n) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			n := openNode(t, dir, named("old"))
			n.add(t, "k")
			history := n.Applied().Incarnation
			before(t, n)
			n.add(t, "k")
			n.shut(t)
			path := filepath.Join(dir, "group.json")
			old := read(t, path)

			for round := range 3 {
				if round == 1 {
					replace(t, path, old) // the crash came before group.json changed
				}
				again := openNode(t, dir, named("new"))
				wantRenamed(t, again, history)
				if got, _ := again.add(t, "k"); got != int64(3+round) {
					t.Fatalf("round %d: the counter is %d after an addition", round, got)
				}
				if !strings.Contains(string(read(t, path)), `"node_id": "new"`) {
					t.Fatalf("group.json is %s", read(t, path))
				}
				again.crash(t)
			}
			_, err := tryOpenNode(t, dir, named("another"))
			wantCode(t, err, api.Conflict)
		})
	}
}

// wantRenamed fails the test unless the group has the one member "new" and its history.
func wantRenamed(t *testing.T, n *node, history entry.Incarnation) {
	t.Helper()
	if members := n.Members(); len(members) != 1 || members[0].ID != "new" || !members[0].Voter {
		t.Fatalf("the members are %+v", members)
	}
	if n.Applied().Incarnation != history {
		t.Fatalf("the history is %v, want %v", n.Applied().Incarnation, history)
	}
}

func snapshot(t *testing.T, n *node) {
	t.Helper()
	for i := range 10 {
		n.add(t, fmt.Sprint("other", i))
	}
	if err := n.Snapshot(); err != nil {
		t.Fatal(err)
	}
}

// TestRenameRefusesAGroupWithOtherMembers checks that a member of a larger group is not renamed, because its
// group knows it by its name. It opens under its own name.
func TestRenameRefusesAGroupWithOtherMembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil, 1, calm)
	first := c.members[0]
	c.must(first.AddLearner(soon(t), "learner", "127.0.0.1:1"))
	first.stop()
	_, err := tryOpenNode(t, first.dir, func(conf *engine.Config) {
		conf.NodeID, conf.Rename = "new", func(string) bool { return true }
	})
	wantCode(t, err, api.Unhealthy)
	openNode(t, first.dir).add(t, "k")
}
