package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// closedWith returns a data directory with the closed namespaces a and b, each with two shards and a job.
func closedWith(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	h := openHost(t, Config{DataDir: dir})
	for _, ns := range []tenancy.NamespaceID{"a", "b"} {
		cells := ready(t, h, ns, Spec{Shards: 2})
		if _, err := enqueue(t.Context(), cells[0]); err != nil {
			t.Fatal(err)
		}
		if err := h.Shut(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.RemoveAll(to))
	must(t, os.Rename(from, to))
}

// TestDataThatIsPartlyGoneIsRefused checks that Add refuses a namespace if a part of its data is gone or is
// another's. It names the file and founds nothing in its place. Other namespaces still open.
func TestDataThatIsPartlyGoneIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(t *testing.T, dir, other string) // to namespace a below dir; other is of another machine
		says string
	}{
		"shards.json is missing":           {func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, "ns/a/shards.json"))) }, "ns/a/shards.json is missing"},
		"shards.json is empty":             {func(t *testing.T, dir, _ string) { must(t, os.Truncate(filepath.Join(dir, "ns/a/shards.json"), 0)) }, "ns/a/shards.json cannot be read"},
		"shards.json is truncated":         {func(t *testing.T, dir, _ string) { must(t, os.Truncate(filepath.Join(dir, "ns/a/shards.json"), 20)) }, "ns/a/shards.json cannot be read"},
		"shards.json says one shard":       {rewrite("ns/a/shards.json", `"shards":2`, `"shards":1`), "ns/a/shards.json is of another founding"},
		"shards.json says three shards":    {rewrite("ns/a/shards.json", `"shards":2`, `"shards":3`), "ns/a/shards.json is of another founding"},
		"shards.json is another machine's": {func(t *testing.T, dir, other string) { swapIn(t, dir, other, "ns/a/shards.json") }, "ns/a/shards.json is of another founding"},
		"shards.json is another namespace's": {func(t *testing.T, dir, _ string) {
			move(t, filepath.Join(dir, "ns/b/shards.json"), filepath.Join(dir, "ns/a/shards.json"))
		}, "ns/a/shards.json is of namespace b"},
		"a shard is missing":            {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1"))) }, "ns/a/1/shard.json is missing"},
		"the first shard is missing":    {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Join(dir, "ns/a/0"))) }, "ns/a/0/shard.json is missing"},
		"a shard's record is missing":   {func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, "ns/a/1/shard.json"))) }, "ns/a/1/shard.json is missing"},
		"a shard's record is truncated": {func(t *testing.T, dir, _ string) { must(t, os.Truncate(filepath.Join(dir, "ns/a/1/shard.json"), 9)) }, "ns/a/1/shard.json cannot be read"},
		"a shard's log is missing":      {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1/raft"))) }, "ns/a/1/raft is missing"},
		"a shard's store is missing":    {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1/state"))) }, "ns/a/1/state is missing"},
		"a shard's log and store are missing": {func(t *testing.T, dir, _ string) {
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1/raft")))
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1/state")))
		}, "ns/a/1/raft is missing"},
		"shards are swapped": {func(t *testing.T, dir, _ string) {
			move(t, filepath.Join(dir, "ns/a/0"), filepath.Join(dir, "x"))
			move(t, filepath.Join(dir, "ns/a/1"), filepath.Join(dir, "ns/a/0"))
			move(t, filepath.Join(dir, "x"), filepath.Join(dir, "ns/a/1"))
		}, "ns/a/0/shard.json is of shard 1"},
		"a shard is another namespace's": {func(t *testing.T, dir, _ string) {
			move(t, filepath.Join(dir, "ns/b/1"), filepath.Join(dir, "ns/a/1"))
		}, "ns/a/1/shard.json is of shard 1 of 2 of namespace b"},
		"a shard is another machine's": {func(t *testing.T, dir, other string) { swapIn(t, dir, other, "ns/a/1") }, "ns/a/1/shard.json is of shard 1 of 2 of namespace a, founding"},
		"there is a shard too many": {func(t *testing.T, dir, _ string) {
			must(t, os.Mkdir(filepath.Join(dir, "ns/a/2"), 0o700))
		}, "ns/a/2 is there"},
		"the whole namespace is missing": {func(t *testing.T, dir, _ string) { must(t, os.RemoveAll(filepath.Join(dir, "ns/a"))) }, "ns/a/shards.json is missing: namespace a has been open on this host"},
		"the namespace's directory is empty": {func(t *testing.T, dir, _ string) {
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a")))
			must(t, os.Mkdir(filepath.Join(dir, "ns/a"), 0o700))
		}, "ns/a/shards.json is missing"},
		"the namespace's directory is another machine's": {func(t *testing.T, dir, other string) { swapIn(t, dir, other, "ns/a") }, "ns/a/shards.json is of another founding"},
		"the namespace's directory is another's":         {func(t *testing.T, dir, _ string) { move(t, filepath.Join(dir, "ns/b"), filepath.Join(dir, "ns/a")) }, "ns/a/shards.json is of namespace b"},
		"the record of the host is missing":              {func(t *testing.T, dir, _ string) { must(t, os.Remove(filepath.Join(dir, "opened/a.json"))) }, "opened/a.json is missing"},
		"the record of the host is truncated":            {func(t *testing.T, dir, _ string) { must(t, os.Truncate(filepath.Join(dir, "opened/a.json"), 5)) }, "opened/a.json cannot be read"},
		"the record of the host is another machine's":    {func(t *testing.T, dir, other string) { swapIn(t, dir, other, "opened/a.json") }, "in " + "@/opened/a.json"},
		"the record of the host is another namespace's": {func(t *testing.T, dir, _ string) {
			move(t, filepath.Join(dir, "opened/b.json"), filepath.Join(dir, "opened/a.json"))
		}, "opened/a.json is of namespace b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, other := closedWith(t), ""
			if strings.Contains(name, "machine") {
				other = closedWith(t)
			}
			c.harm(t, dir, other)
			h := openHost(t, Config{DataDir: dir})
			for _, spec := range []Spec{{}, {Shards: 2}, {Shards: 1}, {Opened: true}} {
				err := h.Add(t.Context(), "a", spec)
				if api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), strings.ReplaceAll(c.says, "@", dir)) {
					t.Errorf("%+v: %v\ndoes not say %q", spec, err, c.says)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "ns/b/0")); err == nil && !strings.Contains(name, "another namespace's") {
				ready(t, h, "b", Spec{})
			}
			// The namespace can be deleted, and is then new.
			must(t, h.Remove(t.Context(), "a"))
			ready(t, h, "a", Spec{Shards: 1})
		})
	}
}

func rewrite(path, old, now string) func(t *testing.T, dir, other string) {
	return func(t *testing.T, dir, _ string) {
		t.Helper()
		at := filepath.Join(dir, path)
		text, err := os.ReadFile(at)
		must(t, err)
		changed := strings.Replace(string(text), old, now, 1)
		if changed == string(text) {
			t.Fatalf("%s has no %s: %s", path, old, text)
		}
		must(t, os.WriteFile(at, []byte(changed), 0o600))
	}
}

func swapIn(t *testing.T, dir, other, path string) {
	t.Helper()
	move(t, filepath.Join(other, path), filepath.Join(dir, path))
}

// TestAFoundingThatWasCutShortGoesOn checks that the next start finishes a founding, at each step where it
// can stop.
func TestAFoundingThatWasCutShortGoesOn(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(t *testing.T, dir string){
		"before the first shard": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a/0")))
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1")))
			must(t, os.Remove(filepath.Join(dir, "opened/a.json")))
		},
		"before the second shard": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1")))
			must(t, os.Remove(filepath.Join(dir, "ns/a/0/shard.json")))
			must(t, os.Remove(filepath.Join(dir, "opened/a.json")))
		},
		"before the shards are named": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, "ns/a/0/shard.json")))
			must(t, os.Remove(filepath.Join(dir, "ns/a/1/shard.json")))
			must(t, os.Remove(filepath.Join(dir, "opened/a.json")))
		},
		"before the host has recorded it":   func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "opened/a.json"))) },
		"before it is recorded as complete": func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := closedWith(t)
			rewrite("ns/a/shards.json", `,"complete":true`, "")(t, dir, "")
			undo(t, dir)
			h := openHost(t, Config{DataDir: dir})
			if got := len(ready(t, h, "a", Spec{})); got != 2 {
				t.Errorf("it has %d shards", got)
			}
			must(t, h.Shut(t.Context(), "a"))
			must(t, os.RemoveAll(filepath.Join(dir, "ns/a/1")))
			if err := h.Add(t.Context(), "a", Spec{}); api.CodeOf(err) != api.Unhealthy {
				t.Errorf("it was not recorded as complete: %v", err)
			}
		})
	}
}

// TestANamespaceThatWasOpenIsNotFoundedAnew checks that the host does not found a namespace that the control
// plane knows to have been open here. It still refuses the namespace when the control plane no longer says
// so.
func TestANamespaceThatWasOpenIsNotFoundedAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, spec := range []Spec{{Opened: true, Incarnations: []entry.Incarnation{{1}}}, {Opened: true}, {}} {
		h := openHost(t, Config{DataDir: dir})
		if err := h.Add(t.Context(), "a", spec); api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "ns/a/shards.json is missing") {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

// A founding that was cut short goes on with the same incarnations, at each step where it can stop. With other
// incarnations it is refused, and so is a namespace that is known to have been open.
func TestAFoundingGoesOnWithItsIncarnations(t *testing.T) {
	t.Parallel()
	given, others := []entry.Incarnation{{1}, {2}}, []entry.Incarnation{{1}, {3}}
	for name, undo := range map[string][]string{
		"before the first shard":            {"ns/a/0", "ns/a/1", "opened/a.json"},
		"before the second shard":           {"ns/a/1", "ns/a/0/shard.json", "opened/a.json"},
		"before the shards are named":       {"ns/a/0/shard.json", "ns/a/1/shard.json", "opened/a.json"},
		"before the host has recorded it":   {"opened/a.json"},
		"before it is recorded as complete": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			h := openHost(t, Config{DataDir: dir})
			ready(t, h, "a", Spec{Incarnations: given})
			must(t, h.Close(t.Context()))
			rewrite("ns/a/shards.json", `,"complete":true`, "")(t, dir, "")
			for _, path := range undo {
				must(t, os.RemoveAll(filepath.Join(dir, path)))
			}
			h = openHost(t, Config{DataDir: dir})
			if err := h.Add(t.Context(), "a", Spec{Incarnations: given, Opened: true}); api.CodeOf(err) != api.Unhealthy || !strings.Contains(err.Error(), "cut short") {
				t.Errorf("as a namespace that was open: %v", err)
			}
			ready(t, h, "a", Spec{Incarnations: given})
			if got, err := h.Incarnations("a"); err != nil || !slices.Equal(got, given) {
				t.Errorf("the incarnations are %v (%v), want %v", got, err, given)
			}
			must(t, h.Shut(t.Context(), "a"))
			for _, opened := range []bool{false, true} {
				err := h.Add(t.Context(), "a", Spec{Incarnations: others, Opened: opened})
				if api.CodeOf(err) != api.Conflict || !strings.Contains(err.Error(), given[1].String()) || !strings.Contains(err.Error(), others[1].String()) {
					t.Errorf("with other incarnations: %v", err)
				}
			}
			ready(t, h, "a", Spec{Incarnations: given, Opened: true})
		})
	}
}

// TestTrashIsNotRememberedAsOpen checks that a namespace is new after a crash that cuts its deletion short
// after the rename.
func TestTrashIsNotRememberedAsOpen(t *testing.T) {
	t.Parallel()
	dir := closedWith(t)
	must(t, os.MkdirAll(filepath.Join(dir, trashDir), 0o700))
	move(t, filepath.Join(dir, "ns/a"), filepath.Join(dir, trashDir, "a.x"))
	h := openHost(t, Config{DataDir: dir})
	ready(t, h, "a", Spec{Shards: 1})
}
