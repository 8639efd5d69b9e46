package view

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// script is a history of a store, one entry per step.
var script = []func(h *shard){
	func(h *shard) { h.commit(func(*state.Tx) {}) },
	func(h *shard) { h.enqueue("q", 5) },
	func(h *shard) { h.fetch(idOf(1), "w") },
	func(h *shard) { h.commit(func(*state.Tx) {}) },
	func(h *shard) { h.ack(idOf(1), `{"ok":true}`) },
	func(h *shard) { h.enqueue("r", 2) },
	func(h *shard) { h.fetch(idOf(2), "w") },
	func(h *shard) { h.fail(idOf(2), job.Dead, "no") },
	func(h *shard) { h.fetch(idOf(3), "w") },
	func(h *shard) { h.commit(func(*state.Tx) {}) },
}

// idOf returns the n-th id that a shard creates.
func idOf(n int) job.ID { return (&shard{ids: n - 1}).newID() }

func (h *shard) play(steps []func(h *shard)) {
	h.t.Helper()
	for _, step := range steps {
		step(h)
	}
}

// killed closes the view of a store that has the whole script, and opens it on a store that a kill has thrown
// back to the first `flushed` entries.
func killed(t *testing.T, flushed int) *shard {
	t.Helper()
	h := newShard(t)
	h.play(script)
	h.settle()
	h.reopen(func() { h.throwBack(flushed) })
	return h
}

func (h *shard) throwBack(flushed int) {
	h.t.Helper()
	must(h.t, h.store.Close())
	h.store, h.ids = h.openStore(), 0
	h.play(script[:flushed])
}

func (h *shard) mustNotAnswer() {
	h.t.Helper()
	_, err := h.view.Search(h.t.Context(), Query{})
	if api.CodeOf(err) != api.ViewBehind {
		h.t.Fatalf("a view ahead of its store answered: %v", err)
	}
	if err := h.view.Dump(h.t.Context(), new(bytes.Buffer)); api.CodeOf(err) != api.ViewBehind {
		h.t.Fatalf("a view ahead of its store showed itself: %v", err)
	}
}

// TestReplayIsAwaited opens the view on a store that came back without its unflushed entries and replays its
// log.
func TestReplayIsAwaited(t *testing.T) {
	t.Parallel()
	for flushed := range len(script) {
		h := killed(t, flushed)
		if seen := len(script) - 1; flushed < seen { // the last entry has no events
			eventually(t, "the view to wait", func() bool { return h.logged.has("waits for the store") })
			for _, step := range script[flushed : seen-1] {
				h.mustNotAnswer()
				if err := h.view.Err(); err != nil {
					t.Fatalf("a view that waits is unhealthy: %v", err)
				}
				step(h)
			}
			h.mustNotAnswer()
			h.play(script[seen-1:])
		} else {
			h.play(script[flushed:])
		}
		sameAsStore(t, h)
		got := h.dump()
		if n := h.logged.rebuilt(""); n != 0 {
			t.Fatalf("flushed at %d: built again:\n%s", flushed, h.logged)
		}
		must(t, h.view.Rebuild(t.Context()))
		if want := h.dump(); got != want {
			t.Fatal(firstDifference(want, got))
		}
		h.enqueue("q", 1)
		sameAsStore(t, h)
	}
}

// TestLostEntriesWithoutEvents loses a tail of the log that had no events. The view builds nothing, and does
// not mistake the entries that replace the tail for entries it knows.
func TestLostEntriesWithoutEvents(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 3)
	h.settle()
	for range 5 {
		h.commit(func(*state.Tx) {})
	}
	h.settle()
	h.closeView()
	execute(t, h.file(), "UPDATE cursor SET raft_index = 6") // as a rebuild leaves it
	must(t, h.store.Close())
	h.store, h.ids = h.openStore(), 0
	h.enqueue("q", 3)
	v := newView(h.dir, h.store, h.options(), h.limits)
	must(t, v.resume(t.Context()))
	_, index := v.Cursor()
	must(t, v.db.close())
	if index != 1 {
		t.Fatalf("the view is at index %d, the store at 1", index)
	}
	h.openView()
	h.settle()
	h.enqueue("other", 3)
	sameAsStore(t, h)
	if n := h.logged.rebuilt(""); n != 0 {
		t.Fatalf("built again:\n%s", h.logged)
	}
}

// TestLostTailIsNoticed loses the log's tail for good and grows another one in its place. The view must
// notice this no later than when the store reaches the position that the view has seen.
func TestLostTailIsNoticed(t *testing.T) {
	t.Parallel()
	nothing := func(*state.Tx) {}
	seconds := func(n int64) int64 { return n * int64(time.Second) }
	for _, c := range []struct {
		name   string
		reason string
		grow   func(h *shard)
	}{
		{"fewer events", "has lost what it shows", func(h *shard) {
			for h.store.Head().Index < uint64(len(script)-1) {
				h.commit(nothing)
			}
		}},
		{"as many events at another time", "the last entry it has seen is", func(h *shard) {
			h.play(script[2:7])
			head := h.store.Head()
			h.commitAt(1, head.ClockNs+1, func(tx *state.Tx) {
				h.edit(tx, idOf(2), func(tx *state.Tx, j *job.Job) { j.State, j.FailedNs = job.Dead, tx.ClockNs() }, evFailed, evDead)
			})
			h.commitAt(1, head.ClockNs+2, func(tx *state.Tx) { h.edit(tx, idOf(3), fetched("v"), evStarted) })
		}},
		{"as many events in fewer entries", "the last entry it has seen is", func(h *shard) {
			h.enqueue("other", 20)
		}},
		{"first entry of a new term", "has lost what it shows", func(h *shard) {
			h.commitAt(2, h.store.Head().ClockNs, nothing)
		}},
		{"first entry of a leader that forgot its term", "has lost what it shows", func(h *shard) {
			h.commitAt(1, seconds(100), nothing)
		}},
		{"nothing", "has stood at 2", func(*shard) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			h.play(script)
			h.settle()
			h.reopen(func() {
				h.throwBack(2)
				if c.name == "nothing" {
					h.limits.replay = time.Millisecond
				}
			})
			if c.name != "nothing" {
				eventually(t, "the view to wait", func() bool { return h.logged.has("waits for the store") })
			}
			c.grow(h)
			// The store stops here.
			eventually(t, "the view to notice", func() bool { return h.logged.rebuilt(c.reason) == 1 })
			sameAsStore(t, h)
			h.enqueue("q", 1)
			sameAsStore(t, h)
			if n := h.logged.rebuilt(""); n != 1 {
				t.Fatalf("built %d times:\n%s", n, h.logged)
			}
		})
	}
}

// TestRowsNewerThanTheFeedThatWasRead ends a flush before the end of the feed. The flush has made rows from
// records newer than the events it read, so the store must still have everything that the rows show.
func TestRowsNewerThanTheFeedThatWasRead(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	h.closeView()
	ids := h.enqueueMany(maxFlushJobs + perEntry)
	halfway := h.store.Head().Index
	h.fetch(ids[0], "w")
	h.ack(ids[0], "")

	v := newView(h.dir, h.store, h.options(), h.limits)
	must(t, v.resume(t.Context()))
	if more, err := v.flush(); !more || err != nil {
		t.Fatalf("the flush left nothing for another: %v", err)
	}
	must(t, v.db.close())

	// The log lost the fetch and the ack.
	must(t, h.store.Close())
	h.store, h.ids = h.openStore(), 0
	h.enqueueMany(maxFlushJobs + perEntry)
	if h.store.Head().Index != halfway {
		t.Fatal("the store is not where it was")
	}
	h.openView()
	eventually(t, "the view to wait", func() bool { return h.logged.has("waits for the store") })
	h.commitAt(2, h.store.Head().ClockNs, func(*state.Tx) {})
	h.settle()
	page, err := h.view.Search(t.Context(), Query{Queue: "queue-0", States: []job.State{job.Completed}})
	must(t, err)
	if len(page.Jobs) != 0 {
		t.Fatalf("the view shows what the store has lost: %v", page.Jobs[0])
	}
	if n := h.logged.rebuilt("has lost what it shows"); n != 1 {
		t.Fatalf("not built again:\n%s", h.logged)
	}
}

// TestRebuildWhileTheStoreReplays checks that a requested rebuild does not wait for the store.
func TestRebuildWhileTheStoreReplays(t *testing.T) {
	t.Parallel()
	h := killed(t, 2)
	eventually(t, "the view to wait", func() bool { return h.logged.has("waits for the store") })
	h.mustNotAnswer()
	must(t, h.view.Rebuild(t.Context()))
	sameAsStore(t, h)
	h.play(script[2:])
	sameAsStore(t, h)
	if n := h.logged.rebuilt(""); n != 1 || h.logged.rebuilt("it was asked for") != 1 {
		t.Fatalf("built %d times:\n%s", n, h.logged)
	}
}

// TestCloseWhileTheStoreReplays closes a waiting view, which waits again after it is opened.
func TestCloseWhileTheStoreReplays(t *testing.T) {
	t.Parallel()
	h := killed(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := h.view.Wait(ctx, 1); api.CodeOf(err) != api.ViewBehind || errors.Is(err, errClosed) {
		t.Fatalf("waiting for a view that waits: %v", err)
	}
	h.reopen(nil)
	h.mustNotAnswer()
	h.play(script[2:])
	sameAsStore(t, h)
	if n := h.logged.rebuilt(""); n != 0 {
		t.Fatalf("built again:\n%s", h.logged)
	}
}

// TestReplayTimeoutOfAStoreThatStands checks that a replay may take longer than replayTimeout as long as the
// store moves.
func TestReplayTimeoutOfAStoreThatStands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := killed(t, 2)
		for _, step := range script[2:] {
			time.Sleep(replayTimeout - time.Second)
			step(h)
		}
		sameAsStore(t, h)
		if n := h.logged.rebuilt(""); n != 0 {
			t.Fatalf("built again:\n%s", h.logged)
		}
		h.reopen(func() { h.throwBack(2) })
		time.Sleep(replayTimeout + time.Second)
		synctest.Wait()
		sameAsStore(t, h)
		if n := h.logged.rebuilt("has stood at 2"); n != 1 {
			t.Fatalf("not built again:\n%s", h.logged)
		}
	})
}

// TestImageOfTheSameGroup gives a follower that is far behind the content of another store instead of log
// entries. The content is ahead of its view, or of the entry for which its view waits.
func TestImageOfTheSameGroup(t *testing.T) {
	t.Parallel()
	trimmed := func(h *shard) {
		h.commit(func(tx *state.Tx) { must(h.t, tx.TrimFeed(tx.Head().FeedNextSeq)) })
		h.enqueue("q", 1)
	}
	other := func(h *shard) { h.enqueue("other", 30) }
	for _, c := range []struct {
		name   string
		reason string // for which the view is built again; none: the view continues
		steps  []func(h *shard)
	}{
		{"later", "", append(script[:len(script):len(script)], func(h *shard) { h.enqueue("q", 1) })},
		{"trimmed", "the feed starts at", append(script[:len(script):len(script)], other, trimmed)},
		{"another history", "the last entry it has seen is", append(append(script[:2:2], other, other), script[2:]...)},
	} {
		for _, waits := range []bool{true, false} {
			name := c.name + " under a running view"
			if waits {
				name = c.name + " under a view that waits"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				from := &shard{t: t}
				h := newShard(t)
				h.play(script)
				h.settle()
				if waits {
					h.reopen(func() { h.throwBack(2) })
					eventually(t, "the view to wait", func() bool { return h.logged.has("waits for the store") })
				} else {
					h.logged.Reset()
				}
				from.incarnation = h.incarnation
				from.store = from.openStore()
				from.play(c.steps)
				image, err := from.store.Image()
				must(t, err)
				must(t, h.store.Restore(image))
				must(t, image.Close())
				must(t, from.store.Close())
				sameAsStore(t, h)
				want := 1
				if c.reason == "" {
					want = 0
				}
				if h.logged.rebuilt("") != want || h.logged.rebuilt(c.reason) != want {
					t.Fatalf("not built again %d times for %q:\n%s", want, c.reason, h.logged)
				}
			})
		}
	}
}
