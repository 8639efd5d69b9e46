package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
)

// Leave closes a namespace and deletes a copy of other groups than those that serve it elsewhere. It keeps a copy of
// one of these groups, and one that it cannot compare, because it may be the only one.
func TestLeaveKeepsTheOnlyCopy(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	own := []entry.Incarnation{{1}, {2}}
	id, err := enqueue(t.Context(), ready(t, h, "a", Spec{Incarnations: own})[1])
	must(t, err)
	for name, elsewhere := range map[string][]entry.Incarnation{
		"the same groups":   own,
		"one of the groups": {{9}, {2}},
		"no groups":         nil,
	} {
		if err := h.Leave(t.Context(), "a", Elsewhere{Incarnations: elsewhere}); api.CodeOf(err) != api.StateConflict {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := h.Cells("a"); err == nil {
			t.Errorf("%s: it is open", name)
		}
	}
	for _, path := range []string{"shards.json", "0/raft/group.json", "1/raft"} {
		aside := filepath.Join(t.TempDir(), "aside")
		must(t, os.Rename(filepath.Join(h.dir("a"), path), aside))
		if err := h.Leave(t.Context(), "a", Elsewhere{Incarnations: []entry.Incarnation{{8}, {9}}}); err == nil || !strings.Contains(err.Error(), "is kept") {
			t.Errorf("without %s: %v", path, err)
		}
		must(t, os.Rename(aside, filepath.Join(h.dir("a"), path)))
	}
	if j, err := ready(t, h, "a", Spec{Incarnations: own, Opened: true})[1].State().Job(id); err != nil || j == nil {
		t.Errorf("the job of the copy that was kept: %v, %v", j, err)
	}
	for range 2 { // the second call finds nothing and returns no error
		must(t, h.Leave(t.Context(), "a", Elsewhere{Incarnations: []entry.Incarnation{{8}, {9}}}))
		if left := files(t, h, "/a"); len(left) > 0 {
			t.Errorf("left are %q", left)
		}
	}
}

// Leave deletes a founding that was cut short, because its shards have no history yet.
func TestLeaveDeletesAFoundingThatWasCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := openHost(t, Config{DataDir: dir})
	ready(t, h, "a", Spec{Incarnations: []entry.Incarnation{{1}, {2}}})
	must(t, h.Shut(t.Context(), "a"))
	rewrite("ns/a/shards.json", `,"complete":true`, "")(t, dir, "")
	must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1")))
	must(t, h.Leave(t.Context(), "a", Elsewhere{Incarnations: []entry.Incarnation{{9}}}))
	if left := files(t, h, "/a"); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// Leave delivers no usage, so that it does not wait for a ledger that is away.
func TestLeaveDeliversNoUsage(t *testing.T) {
	t.Parallel()
	to := &ledger{away: true}
	h := openHost(t, Config{Receiver: to})
	spend(t, add(t, h, "a"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, h.Leave(ctx, "a", Elsewhere{Incarnations: []entry.Incarnation{{9}}}))
	if left := files(t, h, "/a"); len(left) > 0 || to.cost != 0 {
		t.Errorf("left are %q, and the ledger has %d", left, to.cost)
	}
}

// Leave deletes a copy of the groups that serve the namespace only if no configuration in the copy's log is later than
// the one that the leader has reported for that shard.
func TestLeaveComparesConfigurations(t *testing.T) {
	t.Parallel()
	h := openHost(t, Config{})
	own := []entry.Incarnation{{1}, {2}}
	cells := ready(t, h, "a", Spec{Incarnations: own})
	_, first := cells[0].Engine().Configuration()
	_, second := cells[1].Engine().Configuration()
	for range 2 { // the second time the manifest of a snapshot has the configuration too
		for name, by := range map[string]Elsewhere{
			"none":                    {Incarnations: own},
			"earlier ones":            {Incarnations: own, Configurations: []uint64{first - 1, second - 1}},
			"one earlier one":         {Incarnations: own, Configurations: []uint64{first, second - 1}},
			"one of a shard too few":  {Incarnations: own, Configurations: []uint64{first}},
			"and incarnations of one": {Incarnations: own[1:], Configurations: []uint64{second}},
		} {
			if err := h.Leave(t.Context(), "a", by); api.CodeOf(err) != api.StateConflict || !strings.Contains(err.Error(), "is kept") {
				t.Errorf("%s: %v", name, err)
			}
		}
		cells = ready(t, h, "a", Spec{Incarnations: own, Opened: true})
		for _, c := range cells {
			must(t, c.Engine().Snapshot())
		}
	}
	must(t, h.Leave(t.Context(), "a", Elsewhere{Incarnations: own, Configurations: []uint64{first, second}}))
	if left := files(t, h, "/a"); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}
