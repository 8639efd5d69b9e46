package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// enqueueText creates a job with a payload.
func (h *shard) enqueueText(queue, text string) (id job.ID) {
	h.t.Helper()
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue(queue)
		j := h.newJob(tx, queue)
		must(h.t, tx.PutBlob(j, job.Payload, payload(text)))
		must(h.t, tx.CreateJob(j, evEnqueued))
		id = job.ID(j.Id)
	})
	return id
}

// delete acks a job and deletes it.
func (h *shard) delete(id job.ID) {
	h.t.Helper()
	h.ack(id, "")
	h.commit(func(tx *state.Tx) {
		j, err := tx.Job(id)
		must(h.t, err)
		must(h.t, tx.DeleteJob(j, evDeleted))
	})
}

// TestWordsAfterARebuildAndARestart checks that a search finds words in a file that was rebuilt on demand,
// rebuilt after a loss, or opened again, and finds the jobs as they have changed since.
func TestWordsAfterARebuildAndARestart(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	found := func(when, words string, want ...job.ID) {
		t.Helper()
		h.settle()
		page, err := h.view.Search(t.Context(), Query{Words: words, Order: Ascending})
		must(t, err)
		var got, ids []string
		for _, j := range page.Jobs {
			got = append(got, j.ID)
		}
		for _, id := range want {
			ids = append(ids, id.String())
		}
		if !slices.Equal(got, ids) {
			t.Errorf("%s, %q: %v, want %v", when, words, got, ids)
		}
	}
	quick, slow := h.enqueueText("q", `{"text":"the quick fox"}`), h.enqueueText("q", `{"text":"the slow fox"}`)
	check := func(when string, fresh job.ID) {
		t.Helper()
		found(when, "quick", quick)
		found(when, `"slow fox"`, slow)
		found(when, "gone")
		found(when, "fresh", fresh)
	}
	for when, again := range map[string]func(){
		"built again":  func() { must(t, h.view.Rebuild(t.Context())) },
		"opened again": func() { h.reopen(nil) },
		"lost":         func() { h.reopen(func() { must(t, remove(h.file())) }) },
	} {
		gone := h.enqueueText("q", `{"text":"gone"}`)
		found(when, "gone", gone)
		h.delete(gone)
		fresh := h.enqueueText("q", `{"text":"fresh"}`)
		check("before it is "+when, fresh)
		again()
		check(when, fresh)
		h.delete(fresh)
	}
}

// TestSearchesThatEndByTime checks that a search whose time is over returns the jobs found so far and a
// cursor. A client that follows the cursors finds every job once, even if no chunk was finished in time.
func TestSearchesThatEndByTime(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	const count = 3000
	long := strings.Repeat("y", 3000)
	var want []string
	for made := 0; made < count; {
		h.commit(func(tx *state.Tx) {
			tx.EnsureQueue("q")
			for range 100 {
				j := h.newJob(tx, "q")
				must(t, tx.PutBlob(j, job.Payload, payload(fmt.Sprintf(`{"x":%q,"n":%d}`, long, made))))
				must(t, tx.CreateJob(j, evEnqueued))
				if made%500 == 77 {
					want = append(want, job.ID(j.Id).String())
				}
				made++
			}
		})
	}
	h.settle()
	h.view.limits.search.time = 1
	if _, err := h.view.Search(t.Context(), Query{PayloadContains: "y"}); api.CodeOf(err) != api.Overloaded || h.view.damage.Load() != nil {
		t.Errorf("a search without time for one job: %v", err)
	}
	h.view.limits.search.time = 3 * time.Millisecond
	slices.Sort(want)
	for _, sort := range sorts {
		q := Query{PayloadJQ: `.n == 77 or .n == 577 or .n == 1077 or .n == 1577 or .n == 2077 or .n == 2577`, Sort: sort}
		var got []string
		partial := 0
		for pages := 0; ; pages++ {
			if pages > 100_000 {
				t.Fatalf("sorted by %s: it does not end", sort)
			}
			page, err := h.view.Search(t.Context(), q)
			if api.CodeOf(err) == api.Overloaded {
				continue // the machine is busy: try again, as a client would
			}
			must(t, err)
			for _, j := range page.Jobs {
				got = append(got, j.ID)
			}
			if page.Partial {
				if partial++; page.PartialReason == "" || page.Cursor == "" {
					t.Fatalf("a part without %q or cursor %q", page.PartialReason, page.Cursor)
				}
			}
			if q.Cursor = page.Cursor; !page.HasMore {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || partial == 0 {
			t.Errorf("sorted by %s: in %d parts %v, want %v", sort, partial, got, want)
		}
	}
}

// TestWordsOfIDsAndQueues checks that a full-text query finds jobs by their whole ids and by the names of
// their queues, after a move by the new queue's name, and finds every job once.
func TestWordsOfIDsAndQueues(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	fox := h.enqueueText("mails.send", `{"text":"quick fox"}`)
	other := h.enqueueText("files", `{"about":"`+fox.String()+`","text":"quick"}`)
	for range 40 {
		h.enqueueText("rest", `{"text":"dog"}`)
	}
	found := func(words string, want ...job.ID) {
		t.Helper()
		h.settle()
		page, err := h.view.Search(t.Context(), Query{Words: words, Order: Ascending})
		must(t, err)
		var got, ids []string
		for _, j := range page.Jobs {
			got = append(got, j.ID)
		}
		for _, id := range want {
			ids = append(ids, id.String())
		}
		if !slices.Equal(got, ids) || page.Total != int64(len(want)) {
			t.Errorf("%q: %v, total %d, want %v", words, got, page.Total, ids)
		}
	}
	found(fox.String(), fox, other)
	found(`"`+fox.String()+`"`, fox, other)
	found(strings.ToLower(other.String()), other)
	found(fox.String()+" fox", fox)
	found(other.String() + " fox")
	found(fox.String()+" quick", fox, other)
	found("mails", fox)
	found("mails.send quick", fox)
	found(fox.String()+" files", other)
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue("attic")
		j, err := tx.Job(fox)
		must(t, err)
		must(t, tx.MoveJob(j, "attic"))
	})
	found("mails")
	found("attic fox", fox)
	h.same()
}
