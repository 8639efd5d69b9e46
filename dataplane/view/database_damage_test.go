package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestDamageOfAKilledView damages the files that a kill left behind. Every answer after that must be right or
// the error VIEW_BEHIND or UNHEALTHY, and soon all answers must be right.
func TestDamageOfAKilledView(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		reason string // the logged reason for a rebuild, or "" if the view must not rebuild
		break_ func(t *testing.T, path string)
	}{
		{"nothing", "", func(*testing.T, string) {}},
		{"the log is missing", "its log is missing", func(t *testing.T, path string) { must(t, os.Remove(path+"-wal")) }},
		{"the index of the log is missing", "", func(t *testing.T, path string) { must(t, ignoreMissing(os.Remove(path+"-shm"))) }},
		{"the log was cut", "", func(t *testing.T, path string) { cut(t, path+"-wal", 3) }},
		{"the log has another byte", "", func(t *testing.T, path string) { flip(t, path+"-wal", 2) }},
		{"the file is missing", "there is no file", func(t *testing.T, path string) { must(t, os.Remove(path)) }},
		{"the file was cut", "malformed", func(t *testing.T, path string) {
			must(t, os.Remove(path+"-wal"))
			must(t, os.WriteFile(path+"-wal", nil, 0o600))
			cut(t, path, 2)
		}},
		{"the file is cut to nothing", "schema has version 0", func(t *testing.T, path string) { must(t, os.Truncate(path, 0)); must(t, os.Truncate(path+"-wal", 0)) }},
		{"the header is broken", "not a database", func(t *testing.T, path string) {
			must(t, os.Truncate(path+"-wal", 0))
			overwrite(t, path, 0, []byte("CORVO"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			h.enqueue("q", 300)
			h.settle()
			must(t, h.view.Rebuild(t.Context())) // so that the file holds all of these jobs, and the log the next ones
			ids := h.enqueue("q", 30)
			h.settle()
			h.ack2(ids[0])
			h.settle()
			killed := t.TempDir()
			copyFiles(t, h.dir, killed)
			h.enqueue("q", 5)
			c.break_(t, killed+"/"+fileName)
			h.reopen(func() { h.dir = killed })
			eventually(t, "a search to be answered", func() bool { return rightOrNone(t, h) == nil })
			h.enqueue("q", 1)
			sameAsStore(t, h)
			if c.reason == "" && h.logged.rebuilt("") > 0 || c.reason != "" && h.logged.rebuilt(c.reason) != 1 {
				t.Fatalf("the log does not give %q as the one reason:\n%s", c.reason, h.logged)
			}
		})
	}
}

// rightOrNone searches. Every job that the search finds must be as in the store, and an error must say that
// the view cannot be searched now.
func rightOrNone(t *testing.T, h *shard) error {
	t.Helper()
	page, err := h.view.Search(t.Context(), Query{Limit: job.MaxSearchLimit})
	if err != nil {
		if code := api.CodeOf(err); code != api.ViewBehind && code != api.Unhealthy {
			t.Fatalf("a search: %v", err)
		}
		return err
	}
	snap := h.store.Snapshot()
	defer snap.Close()
	for _, found := range page.Jobs {
		id, err := job.ParseID(found.ID)
		must(t, err)
		want, err := Read(snap, id)
		must(t, err)
		a, err := json.Marshal(found)
		must(t, err)
		b, err := json.Marshal(want)
		must(t, err)
		if !bytes.Equal(a, b) {
			t.Fatalf("the view has\n%s\nand the store\n%s", a, b)
		}
	}
	return nil
}

// cut truncates a file to one part of its size.
func cut(t *testing.T, path string, part int64) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.Truncate(path, info.Size()/part))
}

// flip changes a byte inside a file.
func flip(t *testing.T, path string, part int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	at := int64(len(data)) / part
	overwrite(t, path, at, []byte{data[at] ^ 0x20})
}

func overwrite(t *testing.T, path string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt(data, at)
	must(t, err)
	must(t, f.Close())
}

// TestFilesDeletedUnderTheView deletes a file that the view has open. The view must notice, because a process
// can write to a file without a name for ever.
func TestFilesDeletedUnderTheView(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", "-wal"} {
		t.Run("view.db"+suffix, func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			h.enqueue("q", 10)
			h.settle()
			h.logged.Reset()
			must(t, os.Remove(h.file()+suffix))
			// If a flush checked the files just before the deletion, the next flush or a search notices it.
			eventually(t, "the view to be right again", func() bool {
				h.enqueue("q", 1)
				h.settle()
				wrong, err := unlikeStore(t, h)
				return wrong == "" && err == nil
			})
			if h.logged.rebuilt("was deleted")+h.logged.rebuilt("unable to open") != 1 {
				t.Fatalf("not built again:\n%s", h.logged)
			}
			before := h.dump()
			h.reopen(nil)
			if after := h.dump(); after != before || h.logged.rebuilt("") != 0 {
				t.Fatalf("what was built did not stay:\n%s", h.logged)
			}
		})
	}
}

// TestDeletedBeforeTheFirstQuery deletes the file before the readers have opened it.
func TestDeletedBeforeTheFirstQuery(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 10)
	h.settle()
	must(t, os.Remove(h.file()))
	eventually(t, "a search to be answered", func() bool { return rightOrNone(t, h) == nil })
	// A flush may notice the deletion before the search does.
	if h.logged.rebuilt("unable to open")+h.logged.rebuilt("was deleted") != 1 {
		t.Fatalf("not built again:\n%s", h.logged)
	}
}

// TestScrubFindsWhatSQLiteDoesNot changes values in rows and entries of indexes, so that SQLite still takes
// the file for sound.
func TestScrubFindsWhatSQLiteDoesNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, statement, wrong string }{
		{"payload", `UPDATE document SET payload = replace(payload, '7', '8') WHERE number = 7`, "row 7 of table document"},
		{"id", `UPDATE document SET id = replace(id, '0', '1') WHERE number = 7`, "jobs from"},
		{"priority", `UPDATE hot SET priority = 99 WHERE number = 300`, "row 300 of table hot"},
		{"no document", `DELETE FROM document WHERE number = 7`, "jobs from"},
		{"no hot row", `DELETE FROM hot WHERE number = 7`, "row 7 of table hot"},
		{"one too many", `INSERT INTO document SELECT 9999, id || 'x', payload, max_retries, retry_backoff, retry_base_delay_ms, retry_max_delay_ms,
			tags, headers, result_schema, options, fairness_key, fairness_weight FROM document WHERE number = 400`, "jobs from"},
		{"work", `INSERT INTO work VALUES (7, 'null', NULL, NULL)`, "row 7 of table work, which should not be"},
		{"work is lost", `DELETE FROM work`, "of table work"},
		{"errors", `UPDATE job_error SET error = 'another'`, "of table job_error"},
		{"counters", `UPDATE queue SET pending = pending + 1`, "row q of table queue"},
		{"index by queue", `PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = sql || ' WHERE number <> 300' WHERE name = 'hot_by_queue_state';
			PRAGMA writable_schema = 0; PRAGMA schema_version = 4711; REINDEX hot_by_queue_state;
			PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, ' WHERE number <> 300', '') WHERE name = 'hot_by_queue_state';
			PRAGMA schema_version = 4712`, "no index leads to job number 300"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newShard(t)
			ids := h.enqueue("q", 400)
			h.fetch(ids[1], "w")
			h.ack(ids[1], `{"done":true}`)
			h.fetch(ids[2], "w")
			h.fail(ids[2], job.Dead, "no")
			h.settle()
			h.reopen(func() { execute(t, h.file(), c.statement) })
			// Scrubs compare 256 jobs each, or fewer if the machine is busy, because their time is limited. So each
			// try has the view flush and compare more.
			eventually(t, "the view to be built again", func() bool {
				h.enqueue("r", 1)
				h.settle()
				return h.logged.rebuilt(c.wrong) == 1
			})
			sameAsStore(t, h)
		})
	}
}

// TestScrubPassesAll checks that repeated scrubs compare all jobs, from the first id to the last.
func TestScrubPassesAll(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.enqueue("q", 2*scrubJobs+10)
	h.settle()
	h.closeView()
	v := newView(h.dir, h.store, h.options(), h.limits)
	must(t, v.resume(t.Context()))
	snap := h.store.Snapshot()
	defer snap.Close()
	records, err := snap.JobIterator()
	must(t, err)
	defer records.Close()
	passes := 1
	for ; ; passes++ {
		wrong, err := v.scrubFrom(records, v.scrubbed.to)
		must(t, err)
		if wrong != "" {
			t.Fatal(wrong)
		}
		if v.scrubbed.to == (job.ID{}) {
			break
		}
	}
	if passes < 3 {
		t.Fatalf("%d passes for %d jobs", passes, 2*scrubJobs+10)
	}
	must(t, v.db.close())
	h.openView()
}

// TestFlippedBytes flips bytes anywhere in a file. The view must not panic, and it must become right again.
func TestFlippedBytes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			h := newShard(t)
			h.enqueue("q", 150)
			h.settle()
			h.reopen(func() {
				data, err := os.ReadFile(h.file())
				must(t, err)
				for range 1 + random.IntN(20) {
					// The test spares the pages of the schema, because scrubs do not compare the schema.
					data[20*4096+random.IntN(len(data)-20*4096)] ^= byte(1 + random.IntN(255))
				}
				must(t, os.WriteFile(h.file(), data, 0o600))
			})
			// The view finds damage only when it reads or compares the page. So a search that reads more than
			// the searches before may be the first to find it.
			eventually(t, "a view that is as the store", func() bool {
				h.commit(func(tx *state.Tx) { tx.EnsureQueue("r") })
				h.enqueue("r", 1)
				h.settle()
				wrong, err := unlikeStore(t, h)
				if code := api.CodeOf(err); err != nil && code != api.ViewBehind && code != api.Unhealthy {
					t.Fatalf("a search: %v", err)
				}
				return err == nil && wrong == ""
			})
		})
	}
}

// TestAMistakeOfOursIsNotBuiltForEver reports a row that a rebuild cannot mend. The view must rebuild only
// once.
func TestAMistakeOfOursIsNotBuiltForEver(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	for range 3 {
		h.view.suspect(errors.New("a row that cannot be read"))
		h.enqueue("q", 1)
		h.settle()
	}
	if n := h.logged.rebuilt("cannot be read"); n != 1 {
		t.Fatalf("built again %d times", n)
	}
}
