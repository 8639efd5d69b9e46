package view

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// family creates n jobs, and gives properties that few jobs have to some of them in turns. It returns the ids
// in order of creation.
func family(t testing.TB, n int) (h *shard, ids []job.ID) {
	h = newShard(t)
	for len(ids) < n {
		h.commit(func(tx *state.Tx) {
			for range min(1000, n-len(ids)) {
				i := len(ids)
				queue := fmt.Sprint("q", i%3)
				tx.EnsureQueue(queue)
				j := h.newJob(tx, queue)
				beget(j, i)
				must(t, tx.CreateJob(j, evEnqueued))
				ids = append(ids, job.ID(j.Id))
			}
		})
	}
	h.settle()
	return h, ids
}

// firstExpiry is the base of the expiry times of a family's jobs, all of which expire shortly after it.
const firstExpiry = 1_000_000_000_000

func beget(j *job.Job, i int) {
	if i%5 == 0 {
		j.State = job.Dead
	}
	if i%2 == 0 {
		j.Opt().UniqueKey = fmt.Sprint("key-", i%4)
	}
	if i%3 > 0 {
		j.Batch = &job.Membership{BatchId: otherID(i % 3), Counted: true}
	}
	if i%7 == 0 {
		j.Opt().ParentId = otherID(1)
	}
	if i%4 == 0 {
		j.Chain = &job.ChainLink{ChainId: otherID(1), Step: uint32(i), Ended: true}
	}
	if i%3 < 2 {
		j.Details().ExpireNs = firstExpiry + int64(1000-i) // the later the job, the sooner it expires
	}
}

// begotten reports whether a query should find job i of a family.
func begotten(q Query, i int) bool {
	j := &job.Job{State: job.Pending}
	beget(j, i)
	return (q.Queue == "" || q.Queue == fmt.Sprint("q", i%3)) &&
		(q.Queues == nil || slices.Contains(q.Queues, fmt.Sprint("q", i%3))) &&
		(len(q.States) == 0 || slices.Contains(q.States, j.State)) &&
		(q.UniqueKey == "" || q.UniqueKey == j.Options.GetUniqueKey()) &&
		(q.BatchID == job.ID{} || string(q.BatchID[:]) == string(j.Batch.GetBatchId())) &&
		(q.ParentID == job.ID{} || string(q.ParentID[:]) == string(j.Options.GetParentId())) &&
		(q.ChainID == job.ID{} || string(q.ChainID[:]) == string(j.Chain.GetChainId())) &&
		(q.ExpireAfter.IsZero() || j.Detail.GetExpireNs() != 0 && time.Unix(0, j.Detail.GetExpireNs()).After(q.ExpireAfter)) &&
		(q.ExpireBefore.IsZero() || j.Detail.GetExpireNs() != 0 && time.Unix(0, j.Detail.GetExpireNs()).Before(q.ExpireBefore))
}

func TestSearchByIndexedProperties(t *testing.T) {
	t.Parallel()
	h, ids := family(t, 120)
	id := func(n int) job.ID { return job.ID(otherID(n)) }
	at := func(ns int64) time.Time { return time.Unix(0, firstExpiry+ns) }
	for _, q := range []Query{
		{UniqueKey: "key-2"},
		{UniqueKey: "key"},
		{BatchID: id(1)},
		{BatchID: id(3)},
		{ParentID: id(1)},
		{ChainID: id(1)},
		{ExpireAfter: at(950)},
		{ExpireBefore: at(950)},
		{ExpireAfter: at(940), ExpireBefore: at(951)},
		{ExpireAfter: at(951), ExpireBefore: at(940)},
		{ExpireAfter: time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC), ExpireBefore: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
		{UniqueKey: "key-0", BatchID: id(1), ChainID: id(1), ExpireBefore: at(980)},
		{BatchID: id(2), ParentID: id(1)},
		{BatchID: id(1), States: []job.State{job.Dead}},
		{BatchID: id(1), States: []job.State{job.Dead, job.Pending}, Queue: "q1"},
		{BatchID: id(1), Queue: "q2"},
		{ChainID: id(1), Queues: []string{"q0", "q2", "nobody"}},
		{ChainID: id(1), Queues: []string{}},
		{ExpireBefore: at(990), Queues: []string{"q1"}, States: []job.State{job.Dead}},
	} {
		for _, order := range []Order{Descending, Ascending} {
			for _, limit := range []int{1, 7, 1000} {
				q.Order, q.Limit = order, limit
				sameFamily(t, h, ids, q)
			}
		}
	}
	// Search with a prefix of an id too.
	q := Query{IDPrefix: ids[40].String(), ChainID: id(1), Limit: 5}
	if found, total := pages(t, h, q); len(found) != 1 || total != 1 {
		t.Errorf("%+v found %q (%d)", q, found, total)
	}
	q.BatchID = id(2) // 40 is of batch 1
	if found, total := pages(t, h, q); len(found) != 0 || total != 0 {
		t.Errorf("%+v found %q (%d)", q, found, total)
	}
}

// sameFamily checks that the pages of a query hold exactly the jobs that fit, in order.
func sameFamily(t *testing.T, h *shard, ids []job.ID, q Query) {
	t.Helper()
	var want []string
	for i, id := range ids {
		if begotten(q, i) {
			want = append(want, id.String())
		}
	}
	if q.Order == Descending {
		slices.Reverse(want)
	}
	got, total := pages(t, h, q)
	if !slices.Equal(got, want) || total != int64(len(want)) && len(want) <= maxRange/3 {
		t.Errorf("%+v found\n%q (%d)\nwant\n%q", q, got, total, want)
	}
}

// TestSearchInALargeBatch searches a batch with more members than a search counts.
func TestSearchInALargeBatch(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	var ids []job.ID
	one, other := otherID(1), otherID(2)
	const members = maxRange + 20
	for len(ids) < members+10 {
		h.commit(func(tx *state.Tx) {
			for range min(1000, members+10-len(ids)) {
				j := h.newJob(tx, "q")
				j.Batch = &job.Membership{BatchId: one, Counted: true}
				if len(ids) >= members {
					j.Batch.BatchId = other
				}
				if len(ids)%1000 == 0 || len(ids) >= members {
					j.State = job.Dead
				}
				j.Details().ExpireNs = firstExpiry - int64(len(ids))
				must(t, tx.CreateJob(j, evEnqueued))
				ids = append(ids, job.ID(j.Id))
			}
		})
	}
	h.settle()
	for _, c := range []struct {
		q           Query
		want        []string // the first page
		walks, some string   // in the plan
	}{
		{Query{BatchID: job.ID(one), Limit: 2}, texts(ids[members-1], ids[members-2]), "SEARCH x USING COVERING INDEX extra_by_batch (batch_id=? AND rowid>? AND rowid<?)", ""},
		{Query{BatchID: job.ID(one), Limit: 2, Order: Ascending, States: []job.State{job.Dead}}, texts(ids[0], ids[1000]), "SEARCH h USING COVERING INDEX hot_by_rare_state (state=? AND rowid>? AND rowid<?)", "EXISTS"},
		{Query{ExpireAfter: time.Unix(0, 5), Limit: 2}, texts(ids[members+9], ids[members+8]), "SEARCH x USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "NOT INDEXED"},
	} {
		page, err := h.view.Search(t.Context(), c.q)
		must(t, err)
		var got []string
		for _, j := range page.Jobs {
			got = append(got, j.ID)
		}
		// The total is exact if few jobs have to be examined.
		if !slices.Equal(got, c.want) || page.TotalIsEstimate != (c.q.States == nil) || !page.HasMore {
			t.Errorf("%+v finds %q, %+v", c.q, got, page.TotalIsEstimate)
		}
		planned(t, h, c.q, c.walks, c.some, false)
	}
	page, err := h.view.Search(t.Context(), Query{BatchID: job.ID(other)})
	must(t, err)
	if page.TotalIsEstimate || page.Total != 10 {
		t.Errorf("a small batch: %d, estimated: %v", page.Total, page.TotalIsEstimate)
	}
}

func texts(ids ...job.ID) (all []string) {
	for _, id := range ids {
		all = append(all, id.String())
	}
	return all
}

// begun returns a search that is ready to look for jobs.
func begun(ctx context.Context, t *testing.T, tx *sql.Tx, q Query, match string) *search {
	t.Helper()
	s := &search{Query: q, tx: tx, hi: maxNumber, limits: defaultLimits.search}
	must(t, s.begin(ctx))
	must(t, s.plan(ctx, match))
	return s
}

// planned checks that a search has one branch, whose query plan and SQL contain the given texts.
func planned(t *testing.T, h *shard, q Query, plan, text string, sorts bool) {
	t.Helper()
	match, err := q.normalize()
	must(t, err)
	must(t, h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		s := begun(ctx, t, tx, q, match)
		query, args := s.lookUpQuery()
		got := explain(ctx, t, tx, query, args)
		if len(s.branches) != 1 {
			t.Errorf("%+v has %d branches, want one", q, len(s.branches))
		}
		if !strings.Contains(query, text) {
			t.Errorf("%+v is\n%s\nwant %q in it", q, query, text)
		}
		if !strings.Contains(got, plan) || strings.Contains(got, "TEMP B-TREE") != sorts {
			t.Errorf("%+v: the plan of\n%s\nis\n%s\nwant %q in it, sorting %v", q, query, got, plan, sorts)
		}
		return nil
	}))
}

func TestPlansByIndexedProperties(t *testing.T) {
	t.Parallel()
	h, _ := family(t, 60)
	id := job.ID(otherID(1))
	planned(t, h, Query{UniqueKey: "key-2", BatchID: id}, "SEARCH x USING INDEX extra_by_unique_key (unique_key=? AND rowid>? AND rowid<?)", "", false)
	planned(t, h, Query{BatchID: id, Queue: "q1"}, "SEARCH x USING COVERING INDEX extra_by_batch (batch_id=? AND rowid>? AND rowid<?)", "", false)
	planned(t, h, Query{ParentID: id, Order: Ascending}, "SEARCH x USING COVERING INDEX extra_by_parent (parent_id=? AND rowid>? AND rowid<?)", "", false)
	planned(t, h, Query{ChainID: id}, "SEARCH x USING COVERING INDEX extra_by_chain (chain_id=? AND rowid>? AND rowid<?)", "", false)
	// This search sorts at most maxRange numbers.
	planned(t, h, Query{ExpireBefore: time.Unix(0, firstExpiry)}, "SEARCH x USING COVERING INDEX extra_by_expiry (expire_ns>? AND expire_ns<?)", "", true)
}

// TestACursorBelongsToItsFilter uses a cursor with other filters.
func TestACursorBelongsToItsFilter(t *testing.T) {
	t.Parallel()
	h, _ := family(t, 60)
	q := Query{BatchID: job.ID(otherID(1)), Limit: 2}
	page, err := h.view.Search(t.Context(), q)
	must(t, err)
	for _, other := range []Query{
		{BatchID: job.ID(otherID(2))}, {}, {ParentID: job.ID(otherID(1))}, {BatchID: q.BatchID, ExpireAfter: time.Unix(0, 1)},
	} {
		other.Cursor = page.Cursor
		if _, err := h.view.Search(t.Context(), other); err == nil || !strings.Contains(err.Error(), "another filter") {
			t.Errorf("%+v: %v", other, err)
		}
	}
}
