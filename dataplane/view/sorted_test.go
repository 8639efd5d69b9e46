package view

import (
	"slices"
	"testing"
)

// Jobs that have none of what pages are sorted by come last, in either order, also of
// those in a list of queues.
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
