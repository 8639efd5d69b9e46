package view

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// TestJobsWithoutTheSortedComeLast checks that jobs without the sorted property come last in either order,
// also in a search of a list of queues.
func TestJobsWithoutTheSortedComeLast(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueueMany(20)
	started := []string{ids[7].String(), ids[11].String(), ids[12].String(), ids[13].String()}
	for _, i := range []int{7, 11, 12, 13} {
		h.changeMany(ids[i:i+1], fetched("w"), evStarted)
	}
	h.settle()
	all := []string{"queue-0", "queue-1", "queue-2", "queue-3", "queue-4"}
	for _, queues := range [][]string{nil, all} {
		for _, order := range []Order{Ascending, Descending} {
			page, err := h.view.Search(t.Context(), Query{Queues: queues, Sort: SortStarted, Order: order, Limit: 5})
			must(t, err)
			var got []string
			for _, d := range page.Jobs[:4] {
				got = append(got, d.ID)
			}
			if order == Descending {
				slices.Reverse(got)
			}
			if !slices.Equal(got, started) || page.Jobs[4].StartedAt != nil {
				t.Errorf("queues %v, %s: %v, want %v", queues, order, got, started)
			}
		}
	}
}

// TestSortedByFailure checks that jobs that failed come before those that never did, sorted by failed_at.
func TestSortedByFailure(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 5)
	for _, i := range []int{3, 1} {
		h.fetch(ids[i], "w")
		h.fail(ids[i], job.Dead, "boom")
	}
	h.settle()
	for order, want := range map[Order][]job.ID{Ascending: {ids[3], ids[1]}, Descending: {ids[1], ids[3]}} {
		page, err := h.view.Search(t.Context(), Query{Sort: SortFailed, Order: order, Limit: 3})
		must(t, err)
		if page.Jobs[0].ID != want[0].String() || page.Jobs[1].ID != want[1].String() || page.Jobs[2].FailedAt != nil {
			t.Errorf("%s: %s, %s, %s", order, page.Jobs[0].ID, page.Jobs[1].ID, page.Jobs[2].ID)
		}
	}
	// A search of one state reads only the jobs of that state.
	must(t, h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		s := begun(ctx, t, tx, Query{Sort: SortFailed, States: []job.State{job.Dead}}, "")
		query, args := s.branches[0].statement(", h.failed_ns AS sorted_by, 0", s.rest, chunk{s.lo, s.hi}, true, "sorted_by DESC, {number} DESC", 3)
		if plan := explain(ctx, t, tx, query, args); !strings.Contains(plan, "hot_by_rare_state") {
			t.Errorf("the plan is\n%s", plan)
		}
		return nil
	}))
}
