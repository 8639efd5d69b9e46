package view

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
	"github.com/corvo/corvo/engine/entry"
)

func TestRestartResumes(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 10)
	before := h.dump()
	h.reopen(nil)
	if after := h.dump(); after != before {
		t.Fatal(firstDifference(before, after))
	}
	h.reopen(func() { h.ack2(ids[3]); h.enqueue("r", 2) })
	sameAsStore(t, h)
	if n := h.logged.rebuilt(""); n != 0 {
		t.Fatalf("built again:\n%s", h.logged)
	}
}

func (h *shard) ack2(id job.ID) { h.fetch(id, "w"); h.ack(id, "") }

// TestKillResumes continues from a copy of the files, made while the view runs.
func TestKillResumes(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	for range 20 {
		h.enqueue("q", 3)
	}
	h.settle()
	killed := t.TempDir()
	copyFiles(t, h.dir, killed) // the view is open and was never checkpointed
	h.enqueue("q", 5)
	want := h.dump()
	h.reopen(func() { h.dir = killed })
	if got := h.dump(); got != want {
		t.Fatal(firstDifference(want, got))
	}
	if n := h.logged.rebuilt(""); n != 0 {
		t.Fatalf("built again:\n%s", h.logged)
	}
}

func TestUnusableFilesAreBuiltAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		reason string
		break_ func(t *testing.T, h *shard)
	}{
		{"missing", "there is no file", func(t *testing.T, h *shard) {
			must(t, remove(h.file()))
		}},
		{"garbage", "not a database", func(t *testing.T, h *shard) {
			must(t, os.WriteFile(h.file(), []byte("this is not a database, it is a text of some length, and then some more"), 0o600))
		}},
		{"empty", "its schema has version 0", func(t *testing.T, h *shard) {
			must(t, os.WriteFile(h.file(), nil, 0o600))
		}},
		{"other version", "its schema has version 99", func(t *testing.T, h *shard) {
			execute(t, h.file(), "PRAGMA user_version = 99")
		}},
		{"unfinished", "never finished", func(t *testing.T, h *shard) {
			execute(t, h.file(), "DELETE FROM cursor")
		}},
		{"no table", "no such table", func(t *testing.T, h *shard) {
			execute(t, h.file(), "DROP TABLE work")
		}},
		{"other incarnation", "it is of incarnation", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET incarnation = x'00'")
		}},
		{"other clock", "the last entry it has seen is", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET seen_clock_ns = seen_clock_ns + 1")
		}},
		{"other index", "the last entry it has seen is", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET seen_index = seen_index + 1")
		}},
		{"other number of events", "the last entry it has seen is", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET seen_seq = seen_seq - 1")
		}},
		{"more events by its index", "has lost what it shows", func(t *testing.T, h *shard) {
			execute(t, h.file(), "UPDATE cursor SET seen_seq = seen_seq + 1000")
		}},
		{"trimmed", "the feed starts at", func(t *testing.T, h *shard) {
			h.enqueue("q", 1)
			h.enqueue("q", 1)
			h.commit(func(tx *state.Tx) { must(t, tx.TrimFeed(tx.Head().FeedNextSeq-1)) })
		}},
		{"trimmed to its cursor", "no longer in the feed", func(t *testing.T, h *shard) {
			h.commit(func(tx *state.Tx) { must(t, tx.TrimFeed(tx.Head().FeedNextSeq)) })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			ids := h.enqueue("q", 5)
			h.ack2(ids[0])
			h.fail(ids[1], job.Dead, "no") // two events
			h.settle()
			h.reopen(func() { c.break_(t, h) })
			sameAsStore(t, h)
			if h.logged.rebuilt(c.reason) != 1 || h.logged.rebuilt("") != 1 {
				t.Fatalf("the log does not give %q as the one reason:\n%s", c.reason, h.logged)
			}
			h.enqueue("q", 1)
			sameAsStore(t, h)
		})
	}
}

// execute changes a view's file without the view's knowledge.
func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	must(t, err)
	db.SetMaxOpenConns(1) // so that the PRAGMA is for the statement too
	// On a slow machine a commit of the view may take longer than busyTimeout.
	_, err = db.Exec("PRAGMA busy_timeout = 60000")
	must(t, err)
	_, err = db.Exec(statement)
	must(t, err)
	must(t, db.Close())
}

// TestRunningViewFallsBehindTheTrim trims events that a blocked view has not read.
func TestRunningViewFallsBehindTheTrim(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 1)
	h.settle()
	unlock := lockFile(t, h)
	h.enqueue("q", 1)
	h.enqueue("q", 1)
	h.commit(func(tx *state.Tx) { must(t, tx.TrimFeed(tx.Head().FeedNextSeq)) })
	unlock()
	sameAsStore(t, h)
	if h.logged.rebuilt("the feed starts at") != 1 {
		t.Fatalf("not built again:\n%s", h.logged)
	}
}

// TestRunningViewIsTrimmedToItsCursor trims all events that the view has read and none that it has not: the
// view continues.
func TestRunningViewIsTrimmedToItsCursor(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 1)
	h.settle()
	h.commit(func(tx *state.Tx) { must(t, tx.TrimFeed(tx.Head().FeedNextSeq)) })
	h.enqueue("q", 1)
	sameAsStore(t, h)
	if h.logged.rebuilt("") != 1 {
		t.Fatalf("built again:\n%s", h.logged)
	}
}

// TestAViewOfAnEmptyStoreFallsBehindTheTrim checks that a view built before the first event notices a trim
// like any other view. If it did not, it would wait for ever for trimmed events.
func TestAViewOfAnEmptyStoreFallsBehindTheTrim(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	h.reopen(func() {
		h.enqueue("q", 1)
		h.enqueue("q", 1)
		h.commit(func(tx *state.Tx) { must(t, tx.TrimFeed(tx.Head().FeedNextSeq-1)) })
	})
	sameAsStore(t, h)
	if h.logged.rebuilt("the feed starts at") != 1 {
		t.Fatalf("not built again:\n%s", h.logged)
	}
}

// TestStoreReplacedUnderTheView restores another history into the running store.
func TestStoreReplacedUnderTheView(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 4)
	h.settle()

	other := &shard{t: t, incarnation: entry.Incarnation{8}}
	other.store = other.openStore()
	other.enqueue("r", 2)
	image, err := other.store.Image()
	must(t, err)
	must(t, h.store.Restore(image))
	must(t, image.Close())
	must(t, other.store.Close())

	eventually(t, "the view to notice", func() bool { return h.logged.rebuilt("it is of incarnation") == 1 })
	sameAsStore(t, h)
}

// lockFile locks the file so that the view cannot write to it, as another process could. The returned
// function unlocks it.
func lockFile(t testing.TB, h *shard) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(h.file(), "rw"))
	must(t, err)
	conn, err := db.Conn(context.Background())
	must(t, err)
	_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	must(t, err)
	return func() {
		must(t, conn.Close())
		must(t, db.Close())
	}
}

func TestFailureIsShownAndTriedAgain(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	unlock := lockFile(t, h)
	h.enqueue("q", 3)
	eventually(t, "the view to be unhealthy", func() bool { return h.view.Err() != nil })
	unlock()
	eventually(t, "the view to be healthy", func() bool { return h.view.Err() == nil })
	sameAsStore(t, h)
	if h.logged.rebuilt("") != 1 {
		t.Fatalf("a locked file was built again:\n%s", h.logged)
	}
}

// TestDamageUnderTheView breaks the file of a running view.
func TestDamageUnderTheView(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 3)
	h.settle()
	execute(t, h.file(), "DROP TABLE hot")
	h.enqueue("q", 3)
	sameAsStore(t, h)
	if h.logged.rebuilt("no such table") != 1 {
		t.Fatalf("not built again:\n%s", h.logged)
	}
}

// TestReaderFindsDamage lets a query read a broken page of an idle view.
func TestReaderFindsDamage(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 500)
	h.settle()
	h.reopen(func() {
		info, err := os.Stat(h.file())
		must(t, err)
		f, err := os.OpenFile(h.file(), os.O_RDWR, 0)
		must(t, err)
		// Overwrite everything but the first pages, because they hold the schema and the cursor.
		junk := make([]byte, info.Size()-20*4096)
		for i := range junk {
			junk[i] = 0xa5
		}
		_, err = f.WriteAt(junk, 20*4096)
		must(t, err)
		must(t, f.Close())
	})
	eventually(t, "a search to be answered", func() bool {
		_, err := h.view.Search(t.Context(), Query{Limit: 1000})
		return err == nil
	})
	sameAsStore(t, h)
	if h.logged.rebuilt("malformed") != 1 {
		t.Fatalf("not built again:\n%s", h.logged)
	}
}

func TestRebuildOnDemandWhileServing(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 2000)
	want := h.dump()
	stop := make(chan struct{})
	searched := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				searched <- nil
				return
			default:
			}
			// A reader never sees half a view.
			page, err := h.view.Search(context.Background(), Query{Queue: "q", Limit: 1000})
			if err != nil || len(page.Jobs) != 1000 || page.Total != 2000 {
				t.Errorf("%d jobs of %d: %v", len(page.Jobs), page.Total, err)
				searched <- err
				return
			}
		}
	}()
	for range 5 {
		must(t, h.view.Rebuild(t.Context()))
	}
	close(stop)
	must(t, <-searched)
	if got := h.dump(); got != want {
		t.Fatal(firstDifference(want, got))
	}
	if _, err := os.Stat(h.file() + newSuffix); !os.IsNotExist(err) {
		t.Fatalf("the file being built is still there: %v", err)
	}
}

// TestLogIsBounded has a reader that keeps SQLite from restarting its log.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	db, err := sql.Open("sqlite", dsn(h.file(), "rw"))
	must(t, err)
	tx, err := db.Begin()
	must(t, err)
	must(t, tx.QueryRow("SELECT count(*) FROM hot").Scan(new(int)))

	logSize := func() int64 {
		info, err := os.Stat(h.file() + "-wal")
		must(t, err)
		return info.Size()
	}
	big := payload(`"` + strings.Repeat("x", job.DefaultMaxPayload-2) + `"`)
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue("q")
		for range maxWAL/job.DefaultMaxPayload + 1 {
			j := h.newJob(tx, "q")
			must(t, tx.PutBlob(j, job.Payload, big))
			must(t, tx.CreateJob(j, evEnqueued))
		}
	})
	for range 2 { // the second flush comes after the first one has tried to truncate the log
		h.enqueue("q", 1)
		h.settle()
	}
	if n := logSize(); n <= maxWAL || h.view.Err() != nil {
		t.Fatalf("the log has %d bytes, the view's error is %v", n, h.view.Err())
	}
	must(t, tx.Rollback())
	must(t, db.Close())
	h.enqueue("q", 1)
	eventually(t, "the log to be truncated", func() bool { return logSize() < maxWAL })
}
