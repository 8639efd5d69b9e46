package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
)

func TestTheLaterKeyCounts(t *testing.T) {
	t.Parallel()
	r := record{NodeID: "a"}
	r.setKey("b", "k1")
	r.setKey("c", "k2")
	if got := r.Known["c"]; got != (known{"k2", 2}) {
		t.Fatalf("%+v", got)
	}
	before := r.Known
	if r.learnKeys(map[string]known{"b": {"old", 1}, "c": {"older", 0}, "a": {"mine", 9}}) {
		t.Errorf("%+v", r.Known)
	}
	if !r.learnKeys(map[string]known{"b": {"new", 3}, "d": {"k3", 4}}) || r.Known["b"].Key != "new" || r.Known["d"].Key != "k3" {
		t.Errorf("%+v", r.Known)
	}
	if before["b"].Key != "k1" {
		t.Error("a copy that others hold has changed")
	}
	r.setKey("b", "")
	if got := r.Known["b"]; got != (known{"", 5}) {
		t.Errorf("%+v", got)
	}
}

func TestKeysOfNodesThatAreGoneAreBounded(t *testing.T) {
	t.Parallel()
	r := record{NodeID: "a"}
	members := map[string]string{}
	for i := range 2 * maxGone {
		r.setKey(fmt.Sprint("gone", i), "k")
	}
	r.setKey("b", "k")
	members["b"] = "b:1"
	r.prune(members)
	if len(r.Known) != maxGone+1 || r.Known["b"].Key == "" {
		t.Errorf("%d are kept", len(r.Known))
	}
	if _, ok := r.Known[fmt.Sprint("gone", maxGone)]; !ok {
		t.Error("a later one was forgotten")
	}
	if _, ok := r.Known[fmt.Sprint("gone", maxGone-1)]; ok {
		t.Error("an earlier one is kept")
	}
}

// TestADirectoryThatWasReplacedIsRefusedAtItsStart checks that a member keeps its key, and the keys of the
// others, over a restart at another address, and that a directory whose ID was given to another one is
// refused when it starts.
func TestADirectoryThatWasReplacedIsRefusedAtItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, founder, m := two(t, Config{})
		join := Config{Join: []string{founder.Address()}}
		first, err := Open(t.Context(), m.config(join))
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Start(m.openGroups(first)); err != nil {
			t.Fatal(err)
		}
		awaitMember(m)
		if got := founder.current().Known["node-1"].Key; got != first.key {
			t.Fatalf("the founder knows %q", got)
		}
		if got := first.current().Known["node-0"].Key; got != founder.key {
			t.Fatalf("the member knows %q", got)
		}
		_ = first.Close()
		again, err := Open(t.Context(), m.config(Config{}))
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Start(m.openGroups(again)); err != nil {
			t.Fatal(err)
		}
		if again.key != first.key || founder.wire.AddressOf("node-1") != again.Address() {
			t.Errorf("after the restart: at %s, not %s", founder.wire.AddressOf("node-1"), again.Address())
		}
		_ = again.Close()
		time.Sleep(2 * aliveWithin)

		// Another directory joins with its ID.
		other := w.machine(t, "node-1")
		replacement, err := Open(t.Context(), other.config(join))
		if err != nil {
			t.Fatal(err)
		}
		defer replacement.Close()
		if err := replacement.Start(other.openGroups(replacement)); err != nil {
			t.Fatal(err)
		}
		awaitMember(other)
		_, err = Open(t.Context(), m.config(Config{}))
		if api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), `another process holds node id "node-1"`) {
			t.Errorf("%v", err)
		}
		if got := founder.wire.AddressOf("node-1"); got != replacement.Address() {
			t.Errorf("it is taken to be at %s, it is at %s", got, replacement.Address())
		}
	})
}

// TestANodeLearnsOfItsRemovalAtItsStart checks that a node that was removed while it was away ends at its next
// start, although nobody could notify it, and at the starts after that, with nobody to ask.
func TestANodeLearnsOfItsRemovalAtItsStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, founder, m := two(t, Config{})
		member, err := Open(t.Context(), m.config(Config{Join: []string{founder.Address()}}))
		if err != nil {
			t.Fatal(err)
		}
		if err := member.Start(m.openGroups(member)); err != nil {
			t.Fatal(err)
		}
		awaitMember(m)
		_ = member.Close()
		time.Sleep(2 * aliveWithin)
		if err := founder.CheckRemovable(t.Context(), "node-1"); err != nil {
			t.Fatal(err)
		}
		if err := founder.Remove(t.Context(), "node-1"); err != nil {
			t.Fatal(err)
		}
		refused := func() {
			t.Helper()
			_, err := Open(t.Context(), m.config(Config{}))
			if api.CodeOf(err) != api.Conflict || strings.Count(err.Error(), "this node was removed from its cluster") != 1 {
				t.Errorf("a removed node: %v", err)
			}
		}
		refused()
		w.machines[0].crash()
		refused()
	})
}

func TestADamagedKeyIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		m := w.machine(t, "node-0")
		c, err := Open(t.Context(), m.config(Config{Bootstrap: true}))
		if err != nil {
			t.Fatal(err)
		}
		r := c.current()
		_ = c.Close()
		r.Key = r.Key[1:]
		if err := os.WriteFile(filepath.Join(m.dir, recordName), encodeRecord(&r), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), m.config(Config{Bootstrap: true})); api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), recordName) {
			t.Errorf("%v", err)
		}
	})
}
