package view

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
)

// TestScopeWays searches lists of queues that call for either way: few of many queues, and most of many.
func TestScopeWays(t *testing.T) {
	t.Parallel()
	const queues, rounds = 120, 4
	h := newShard(t)
	type made struct {
		id    string
		queue int
		done  bool
	}
	var all []made
	for i := range queues * rounds {
		id := h.enqueue(fmt.Sprint("q", i%queues), 1)[0]
		all = append(all, made{id.String(), i % queues, i%5 == 0})
		if i%5 == 0 {
			h.ack2(id)
		}
	}
	h.settle()
	for _, c := range []struct {
		name  string
		in    func(queue int) bool
		walks bool
	}{
		{"few", func(queue int) bool { return queue%40 == 7 }, false},
		{"all but one", func(queue int) bool { return queue != 11 }, true},
	} {
		var names []string
		for queue := range queues {
			if c.in(queue) {
				names = append(names, fmt.Sprint("q", queue))
			}
		}
		for _, q := range []Query{
			{Queues: names, Limit: 9},
			{Queues: names, Limit: 9, Order: Ascending},
			{Queues: names, Limit: 9, States: []job.State{job.Completed, job.Pending}},
			{Queues: names, Limit: 9, States: []job.State{job.Pending}, Order: Ascending},
		} {
			var want []string
			for _, m := range all {
				if c.in(m.queue) && (len(q.States) != 1 || !m.done) {
					want = append(want, m.id)
				}
			}
			if q.Order != Ascending {
				slices.Reverse(want)
			}
			got, total := pages(t, h, q)
			if !slices.Equal(got, want) || total != int64(len(want)) {
				t.Errorf("%s, %v %s: found %d (%d), want %d", c.name, q.States, q.Order, len(got), total, len(want))
			}
			if walks := h.walks(q); walks != c.walks {
				t.Errorf("%s, %v: walks: %v", c.name, q.States, walks)
			}
		}
	}
}

// walks reports whether a search walks all jobs.
func (h *shard) walks(q Query) (walks bool) {
	h.t.Helper()
	_, err := q.normalize()
	must(h.t, err)
	must(h.t, h.view.read(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		s := &search{Query: q, tx: tx, hi: maxNumber, limits: defaultLimits.search}
		must(h.t, s.begin(ctx))
		must(h.t, s.plan(ctx, ""))
		walks = len(s.branches) == 1 && s.branches[0].tables == everyJob.tables
		return nil
	}))
	return walks
}

// TestScopePagesUnderWrites reads pages while jobs and queues are created and the list of queues grows with
// them. It must find every earlier job once, and totals must be exact.
func TestScopePagesUnderWrites(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	names := []string{"mine-0", "mine-1"}
	var want []string
	for i := range 40 {
		for _, queue := range []string{names[i%2], "theirs"} {
			if id := h.enqueue(queue, 1)[0].String(); queue != "theirs" {
				want = append(want, id)
			}
		}
	}
	h.settle()
	for _, order := range []Order{Descending, Ascending} {
		seen := map[string]int{}
		q := Query{Order: order, Limit: 7, Queues: names}
		for more := true; more && len(seen) < 1000; {
			page, err := h.view.Search(t.Context(), q)
			must(t, err)
			mine := int64(0)
			for _, name := range names {
				one, err := h.view.Queue(name)
				must(t, err)
				mine += one.Enqueued
			}
			if page.Total != mine || page.TotalIsEstimate {
				t.Fatalf("total %d (estimate: %v), there are %d", page.Total, page.TotalIsEstimate, mine)
			}
			for _, j := range page.Jobs {
				seen[j.ID]++
				if !slices.Contains(names, j.Queue) {
					t.Fatalf("found %s of %s", j.ID, j.Queue)
				}
			}
			names = append(names, fmt.Sprint("mine-", len(names)))
			h.enqueue(names[len(names)-1], 2)
			h.enqueue(fmt.Sprint("theirs-", len(names)), 2)
			h.settle()
			q.Queues, q.Cursor, more = names, page.Cursor, page.HasMore
		}
		for _, id := range want {
			if seen[id] != 1 {
				t.Errorf("%s: job %s was seen %d times", order, id, seen[id])
			}
		}
	}
}
