package view

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

// startTerm commits the first entry of a leader. The number of the leader becomes the random seed of the
// entry.
func (h *shard) startTerm(leader uint64) {
	h.t.Helper()
	head := h.store.Head()
	at := entry.Applied{Group: "g", Incarnation: h.incarnation, Index: head.Index + 1, Term: head.Term + 1}
	header := entry.Header{Incarnation: h.incarnation, ClockNs: head.ClockNs + int64(time.Millisecond)}
	binary.BigEndian.PutUint64(header.Seed[:], leader)
	tx := h.store.Begin(at, header)
	must(h.t, tx.StartTerm())
	must(h.t, tx.Commit())
}

// trimAll drops the whole feed.
func (h *shard) trimAll() {
	h.commit(func(tx *state.Tx) { must(h.t, tx.TrimFeed(tx.Head().FeedNextSeq)) })
}

// keepFromBuilding prevents the view from building a new file until the returned function is called.
func (h *shard) keepFromBuilding() (letGo func()) {
	h.t.Helper()
	path := h.file() + newSuffix
	must(h.t, os.MkdirAll(filepath.Join(path, "in the way"), 0o700)) // create cannot remove a directory that is not empty
	return func() { must(h.t, os.RemoveAll(path)) }
}

// newOldFile returns a shard whose view has seen five jobs of the first leader.
func newOldFile(t *testing.T) *shard {
	t.Helper()
	h := newShard(t)
	h.startTerm(1)
	h.enqueue("q", 5)
	h.settle()
	return h
}

// TestAnOldFileAnswersFromTheStart opens a file that is older than the start of the feed. The file answers
// with its age while the view builds a new one.
func TestAnOldFileAnswersFromTheStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		behind func(h *shard)
	}{
		{"within the term", func(h *shard) { h.enqueue("q", 2) }},
		{"after other leaders", func(h *shard) {
			h.enqueue("q", 1)
			for leader := range uint64(10) {
				h.startTerm(leader + 2)
			}
			h.enqueue("q", 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newOldFile(t)
			var letGo func()
			before := h.store.Head().ClockNs
			h.reopen(func() {
				c.behind(h)
				h.trimAll()
				letGo = h.keepFromBuilding()
			})
			eventually(t, "the old file to answer", func() bool {
				page, err := h.view.Search(t.Context(), Query{})
				return err == nil && page.Total == 5 && len(page.Jobs) == 5
			})
			eventually(t, "a new file to be wanted", func() bool { return h.view.Err() != nil })
			missed := time.Duration(h.store.Head().ClockNs - before)
			if events, age := h.view.Lag(); events != 2 || age < missed || age > missed+2*time.Minute {
				t.Errorf("it is %d events and %v old, want 2 and at least %v", events, age, missed)
			}
			if page, err := h.view.Search(t.Context(), Query{}); err != nil || page.Total != 5 {
				t.Errorf("while a new file is wanted: %+v, %v", page, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := h.view.Wait(ctx, h.store.Head().Index); api.CodeOf(err) != api.ViewBehind {
				t.Errorf("a wait for what it lacks ends with %v", err)
			}
			letGo()
			sameAsStore(t, h)
			if h.logged.rebuilt("the feed starts at") == 0 {
				t.Errorf("not built again:\n%s", h.logged)
			}
			h.enqueue("q", 1)
			sameAsStore(t, h)
		})
	}
}

// TestAFileThatLacksNothingGoesOn trims the feed up to the end of the file: the view keeps the file, although
// the feed no longer has any event that the file has seen.
func TestAFileThatLacksNothingGoesOn(t *testing.T) {
	t.Parallel()
	h := newOldFile(t)
	h.reopen(h.trimAll)
	h.enqueue("q", 1)
	sameAsStore(t, h)
	if h.logged.rebuilt("") != 0 {
		t.Fatalf("built again:\n%s", h.logged)
	}
}

// TestFilesThatMayBeWrongDoNotAnswer opens files that are older than the start of the feed and may belong to
// another history than the store's.
func TestFilesThatMayBeWrongDoNotAnswer(t *testing.T) {
	t.Parallel()
	loseTail := func(h *shard) { // all but the first entry
		must(h.t, h.store.Close())
		h.store, h.ids = h.openStore(), 0
		h.startTerm(1)
		h.startTerm(2)
	}
	for _, c := range []struct {
		name, reason string
		change       func(t *testing.T, h *shard)
	}{
		{"other schema", "its schema has version 99", func(t *testing.T, h *shard) {
			execute(t, h.file(), "PRAGMA user_version = 99")
		}},
		{"other incarnation", "it is of incarnation", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET incarnation = x'00'")
		}},
		{"no log", "its log is missing", func(t *testing.T, h *shard) {
			must(t, os.WriteFile(h.file()+openSuffix, nil, 0o600))
		}},
		{"unfinished", "never finished", func(t *testing.T, h *shard) {
			execute(t, h.file(), "DELETE FROM cursor")
		}},
		{"garbage", "not a database", func(t *testing.T, h *shard) {
			must(t, os.WriteFile(h.file(), []byte("this is not a database, it is a text of some length, and then some more"), 0o600))
		}},
		{"it has seen nothing", "it has seen nothing", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET seen_seq = 1, seen_index = 0")
			execute(t, h.file(), "UPDATE cursor SET next_seq = 1")
		}},
		{"no leader", "no longer in the feed", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET seen_leader = NULL")
		}},
		{"a leader the store never had", "no longer in the feed", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET seen_leader = x'0102'")
		}},
		{"a leader of long ago", "no longer in the feed", func(_ *testing.T, h *shard) {
			for leader := range uint64(64) {
				h.startTerm(leader + 2)
			}
		}},
		{"the term's tail was lost", "the store's next leader began at 2", func(_ *testing.T, h *shard) {
			loseTail(h)
			h.enqueue("q", 9)
		}},
		{"the store went back", "has lost what it shows", func(_ *testing.T, h *shard) {
			loseTail(h)
			h.enqueue("q", 1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newOldFile(t)
			var letGo func()
			h.reopen(func() {
				h.enqueue("q", 2)
				c.change(t, h)
				h.trimAll()
				letGo = h.keepFromBuilding()
			})
			eventually(t, "a new file to be wanted", func() bool { return h.view.Err() != nil })
			h.mustNotAnswer()
			letGo()
			sameAsStore(t, h)
			if h.logged.rebuilt(c.reason) == 0 {
				t.Errorf("the log does not give %q as the reason:\n%s", c.reason, h.logged)
			}
		})
	}
}
