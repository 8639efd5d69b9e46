package host

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/corvo/corvo/dataplane/cell"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine"
	"github.com/corvo/corvo/engine/entry"
	"github.com/corvo/corvo/tenancy"
)

// The groups of a namespace that has lost its quorum, and those that an operator refounds from one copy.
var lostGroups, refounded = []entry.Incarnation{{1}, {2}}, Spec{Opened: true, Incarnations: []entry.Incarnation{{3}, {4}}, Refound: []entry.Incarnation{{1}, {2}}}

// lostQuorum returns a data directory with the namespace a, whose process was killed: its stores lack the last entries of
// their logs. It returns the acknowledged jobs of each shard too.
func lostQuorum(t *testing.T) (dir string, ids [2][]job.ID) {
	t.Helper()
	dir = t.TempDir()
	work := func() {
		h := openHost(t, Config{DataDir: dir})
		for shard, c := range ready(t, h, "a", Spec{Shards: 2, Incarnations: lostGroups}) {
			for range 3 {
				id, err := enqueue(t.Context(), c)
				must(t, err)
				ids[shard] = append(ids[shard], id)
			}
		}
		must(t, h.Shut(t.Context(), "a"))
	}
	work()
	flushed := copied(t, dir)
	work()
	for shard := range 2 {
		for _, part := range []string{"state", "raft/manifest.json"} {
			swapIn(t, dir, flushed, filepath.Join("ns/a", strconv.Itoa(shard), part))
		}
	}
	return dir, ids
}

// copied returns a copy of a data directory as a crash leaves it.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// A host may be killed between any two durable steps of a recovery. When it is started again, it ends the recovery: the
// copy has each acknowledged job and takes writes in its new history, a repeat changes nothing, and the copy is never
// opened in the earlier history again, once a part of it is of the new one.
func TestACrashAtEachStepOfARefounding(t *testing.T) {
	t.Parallel()
	dir, ids := lostQuorum(t)
	h := openHost(t, Config{DataDir: dir})
	images := map[string]string{}
	var order []string
	keep := func(name string) { images[name], order = copied(t, dir), append(order, name) }
	keep("before the replay")

	// The steps of Host.refound, cell.Refounding.Begin and engine.Refound, in their order.
	crossings := make([]map[uint32]state.Crossing, 2)
	for shard := range 2 {
		var err error
		crossings[shard], err = refounding(h, shard).Replay()
		must(t, err)
		keep(fmt.Sprintf("after the replay of shard %d", shard))
	}
	for shard := range 2 {
		r := refounding(h, shard)
		must(t, os.RemoveAll(filepath.Join(r.Dir, "view")))
		keep(fmt.Sprintf("after the view of shard %d", shard))
		must(t, state.Refound(filepath.Join(r.Dir, "state"), state.Options{Shared: h.shared}, r.To, sendersTo(uint32(shard), refounded.Incarnations, crossings)))
		keep(fmt.Sprintf("after the store of shard %d", shard))
		must(t, engine.Refound(filepath.Join(r.Dir, "raft"), r.To))
		keep(fmt.Sprintf("after the group of shard %d", shard))
	}
	// The steps of the first opening. A directory in the place of a file that is to be written stops it there.
	must(t, os.RemoveAll(filepath.Join(dir, "ns/a/0/raft/log")))
	keep("after the log of shard 0")
	for shard := range 2 {
		for _, file := range []string{"manifest.json", "group.json"} {
			block := filepath.Join(dir, "ns/a", strconv.Itoa(shard), "raft", file+".tmp")
			must(t, os.Mkdir(block, 0o700))
			if err := h.Add(t.Context(), "a", refounded); err == nil {
				t.Fatalf("the namespace was opened without %s of shard %d", file, shard)
			}
			must(t, os.Remove(block))
			keep(fmt.Sprintf("before %s of shard %d", file, shard))
		}
	}
	must(t, h.Add(t.Context(), "a", refounded))
	must(t, h.Shut(t.Context(), "a"))
	keep("after the first opening")

	for at, name := range order {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if at > slices.Index(order, "after the view of shard 0") {
				earlier := openHost(t, Config{DataDir: images[name]})
				if err := earlier.Add(t.Context(), "a", Spec{Opened: true, Incarnations: lostGroups}); err == nil {
					t.Error("it was opened in the earlier history")
				}
			}
			endsRefounding(t, images[name], ids)
		})
	}
}

// refounding returns the refounding of a shard of the namespace a.
func refounding(h *Host, shard int) cell.Refounding {
	return cell.Refounding{
		Dir: filepath.Join(h.dir("a"), strconv.Itoa(shard)), Group: groupName("a", shard), From: lostGroups[shard], To: refounded.Incarnations[shard],
		Shared: h.shared, Engine: h.cfg.Engine, Logger: h.cfg.Logger,
	}
}

// endsRefounding checks that a host ends the refounding of the namespace a in a directory, and that it has the jobs.
func endsRefounding(t *testing.T, dir string, ids [2][]job.ID) {
	t.Helper()
	h := openHost(t, Config{DataDir: dir})
	for range 2 { // a restart with the same document
		for shard, c := range ready(t, h, "a", refounded) {
			if got := c.Engine().Incarnation(); got != refounded.Incarnations[shard] {
				t.Errorf("shard %d is of history %v", shard, got)
			}
			for _, id := range ids[shard] {
				if j, err := c.State().Job(id); err != nil || j == nil {
					t.Errorf("job %s of shard %d: %v, %v", id, shard, j, err)
				}
			}
			id, err := enqueue(t.Context(), c)
			must(t, err)
			ids[shard] = append(slices.Clip(ids[shard]), id)
		}
		must(t, h.Shut(t.Context(), "a"))
	}
}

// A host may be killed between the steps by which it sets a copy of the earlier history aside. Started again, it has the
// copy aside exactly once, joins the refounded groups empty, and deletes the copy only when it is told.
func TestACrashWhileACopyIsSetAside(t *testing.T) {
	t.Parallel()
	at := filepath.Join(asideDir, "a."+hex.EncodeToString(lostGroups[0][:]))
	for name, crash := range map[string]func(t *testing.T, dir string){
		"before the first step":    func(*testing.T, string) {},
		"after the directory":      func(t *testing.T, dir string) { must(t, os.Mkdir(filepath.Join(dir, asideDir), 0o700)) },
		"after the copy was moved": func(t *testing.T, dir string) { moveAside(t, dir, at) },
		"after the record was removed": func(t *testing.T, dir string) {
			moveAside(t, dir, at)
			must(t, os.Remove(filepath.Join(dir, "opened/a.json")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, _ := lostQuorum(t)
			crash(t, dir)
			for range 2 {
				h := openMemberHost(t, dir)
				must(t, h.SetAside(t.Context(), "a", lostGroups))
				if copies, err := os.ReadDir(filepath.Join(dir, asideDir)); err != nil || len(copies) != 1 {
					t.Fatalf("aside are %v, %v", copies, err)
				}
				if _, err := os.Stat(filepath.Join(dir, at, "1/raft/group.json")); err != nil {
					t.Error(err)
				}
				must(t, h.Add(t.Context(), "a", joining(refounded.Incarnations)))
				if got, err := h.Incarnations("a"); err != nil || !slices.Equal(got, refounded.Incarnations) {
					t.Errorf("it waits for %v, %v", got, err)
				}
				must(t, h.Close(context.WithoutCancel(t.Context())))
			}
			h := openMemberHost(t, dir)
			must(t, h.DropAside("a"))
			if left := files(t, h, asideDir+"/a"); len(left) > 0 {
				t.Errorf("left is %v", left)
			}
			if all, err := h.OnDisk(); err != nil || !slices.Equal(all, []tenancy.NamespaceID{"a"}) {
				t.Errorf("on disk is %v, %v", all, err)
			}
		})
	}
}

// moveAside renames the directory of the namespace a as Host.SetAside does.
func moveAside(t *testing.T, dir, to string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(dir, asideDir), 0o700))
	must(t, os.Rename(filepath.Join(dir, "ns/a"), filepath.Join(dir, to)))
}
