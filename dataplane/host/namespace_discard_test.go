package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/engine/transport"
	"github.com/corvo/corvo/engine/transport/memnet"
	"github.com/corvo/corvo/engine/transport/transporttest"
)

// The groups of a namespace before and after the control plane has replaced their founder.
var replacedGroups, newGroups = []entry.Incarnation{{1}, {2}}, []entry.Incarnation{{3}, {4}}

func joining(groups []entry.Incarnation) Spec {
	return Spec{Shards: len(groups), Join: groups, Incarnations: groups}
}

// openMemberHost opens a host that other hosts could reach.
func openMemberHost(t *testing.T, dir string) *Host {
	t.Helper()
	net := memnet.New()
	listener, err := net.Listen("n1", 0)
	must(t, err)
	tr, err := transport.Open(transport.Config{
		NodeID: "n1", Identity: transporttest.Identities("n1")["n1"], Listener: listener, Dial: net.Dialer("n1"), Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(func() { must(t, tr.Close()) })
	return openHost(t, Config{DataDir: dir, Engine: engine.Tuning{Transport: tr}})
}

// waiting returns a data directory with the closed namespace a, which waits for the leaders of the replaced groups.
func waiting(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	h := openMemberHost(t, dir)
	must(t, h.Add(t.Context(), "a", joining(replacedGroups)))
	must(t, h.Close(t.Context()))
	return dir
}

// A directory that waits for the leaders of replaced groups is discarded, at each step where its opening or its
// discarding can stop. The host then founds the new groups or waits for their leaders.
func TestAnEmptyCopyOfReplacedGroupsIsDiscarded(t *testing.T) {
	t.Parallel()
	incomplete := rewrite("ns/a/shards.json", `,"complete":true`, "")
	for name, undo := range map[string]func(t *testing.T, dir string){
		"it is complete": func(*testing.T, string) {},
		"before the first shard": func(t *testing.T, dir string) {
			incomplete(t, dir, "")
			for _, path := range []string{"ns/a/0", "ns/a/1", "opened/a.json"} {
				must(t, os.RemoveAll(filepath.Join(dir, path)))
			}
		},
		"before the first shard's group": func(t *testing.T, dir string) {
			incomplete(t, dir, "")
			for _, path := range []string{"ns/a/0/raft", "ns/a/0/shard.json", "ns/a/1", "opened/a.json"} {
				must(t, os.RemoveAll(filepath.Join(dir, path)))
			}
		},
		"before the second shard's log": func(t *testing.T, dir string) {
			incomplete(t, dir, "")
			for _, path := range []string{"ns/a/1/raft/log", "ns/a/0/shard.json", "ns/a/1/shard.json", "opened/a.json"} {
				must(t, os.RemoveAll(filepath.Join(dir, path)))
			}
		},
		"before it is recorded as complete": func(t *testing.T, dir string) { incomplete(t, dir, "") },
		"after it was discarded": func(t *testing.T, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, trashDir), 0o700))
			move(t, filepath.Join(dir, "ns/a"), filepath.Join(dir, trashDir, "a.x"))
		},
	} {
		for role, spec := range map[string]Spec{"founds": {Incarnations: newGroups}, "joins": joining(newGroups)} {
			t.Run(name+", and "+role, func(t *testing.T) {
				t.Parallel()
				dir := waiting(t)
				undo(t, dir)
				h := openMemberHost(t, dir)
				for range 2 {
					if role == "founds" {
						ready(t, h, "a", spec)
					} else {
						must(t, h.Add(t.Context(), "a", spec))
					}
					if got, err := h.Incarnations("a"); err != nil || !slices.Equal(got, newGroups) {
						t.Errorf("it has the groups %v (%v), want %v", got, err, newGroups)
					}
					must(t, h.Shut(t.Context(), "a"))
				}
				if left, err := os.ReadDir(filepath.Join(dir, trashDir)); err == nil && len(left) > 0 {
					t.Errorf("in the trash is %v", left)
				}
			})
		}
	}
}

// A copy of other groups is refused and kept if it has an entry, an applied state or a snapshot, if it was founded
// here, if a part of it is damaged, or if the document founds nothing and adds nothing.
func TestACopyOfOtherGroupsThatMayCountIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec   Spec
		change func(t *testing.T, dir string)
	}{
		"the second shard has entries": {joining(newGroups), func(t *testing.T, dir string) {
			swapIn(t, dir, closedWith(t), "ns/a/1/raft/log")
		}},
		"the second shard has applied entries": {joining(newGroups), func(t *testing.T, dir string) {
			swapIn(t, dir, closedWith(t), "ns/a/1/state")
		}},
		"the second shard has had an entry": {joining(newGroups), func(t *testing.T, dir string) {
			rewrite("ns/a/1/raft/group.json", `"founded": false`, `"founded": true`)(t, dir, "")
		}},
		"the second shard was founded here": {Spec{Incarnations: newGroups}, func(t *testing.T, dir string) {
			rewrite("ns/a/1/raft/group.json", `"joined": true`, `"joined": false`)(t, dir, "")
		}},
		"the second shard has a snapshot": {joining(newGroups), func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "ns/a/1/raft/manifest.json"), []byte(`{"index":7,"term":1}`), 0o600))
		}},
		"the second shard's manifest is damaged": {joining(newGroups), func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "ns/a/1/raft/manifest.json"), nil, 0o600))
		}},
		"the second shard's group is damaged": {joining(newGroups), func(t *testing.T, dir string) {
			must(t, os.Truncate(filepath.Join(dir, "ns/a/1/raft/group.json"), 9))
		}},
		"the second shard's group is missing": {joining(newGroups), func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "ns/a/1/raft/group.json")))
		}},
		"the second shard's group and log are missing": {joining(newGroups), func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1/raft")))
			must(t, os.MkdirAll(filepath.Join(dir, "ns/a/1/raft/staging"), 0o700))
		}},
		"the store leaves or is the only member": {Spec{Opened: true, Incarnations: newGroups}, func(*testing.T, string) {}},
		"other shards":                           {joining(append(slices.Clone(newGroups), entry.Incarnation{5})), func(*testing.T, string) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := waiting(t)
			c.change(t, dir)
			h := openMemberHost(t, dir)
			before, err := readFounding(h.dir("a"))
			must(t, err)
			for range 2 {
				if err := h.Add(t.Context(), "a", c.spec); err == nil {
					t.Error("it is open")
				}
			}
			if after, err := readFounding(h.dir("a")); err != nil || after.Birth != before.Birth {
				t.Errorf("it was founded as %+v, and now is %+v (%v)", before, after, err)
			}
			if _, err := os.Stat(filepath.Join(h.dir("a"), "1/state")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A directory that waits for the leaders of the namespace's groups stays as it is.
func TestAWaitingCopyOfTheSameGroupsStays(t *testing.T) {
	t.Parallel()
	dir := waiting(t)
	h := openMemberHost(t, dir)
	before, err := readFounding(h.dir("a"))
	must(t, err)
	must(t, h.Add(t.Context(), "a", joining(replacedGroups)))
	if after, err := readFounding(h.dir("a")); err != nil || after.Birth != before.Birth {
		t.Errorf("it was founded as %+v, and now is %+v (%v)", before, after, err)
	}
}
