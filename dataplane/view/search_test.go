package view

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// mixture creates jobs of several states in three queues, in turns.
func mixture(t testing.TB) (h *shard, ids []job.ID) {
	h = newShard(t)
	for i := range 60 {
		ids = append(ids, h.enqueue(fmt.Sprint("q", i%3), 1)...)
	}
	for i, id := range ids {
		if i%4 == 0 {
			continue
		}
		h.fetch(id, "w")
		switch i % 4 {
		case 1:
			h.ack(id, `{"i":`+fmt.Sprint(i)+`}`)
		case 2:
			h.fail(id, job.Dead, "boom")
		}
	}
	h.settle()
	return h, ids
}

// pages reads all pages of a search.
func pages(t testing.TB, h *shard, q Query) (found []string, total int64) {
	t.Helper()
	for {
		page, err := h.view.Search(t.Context(), q)
		must(t, err)
		if page.HasMore != (page.Cursor != "") {
			t.Fatalf("has_more is %v and the cursor %q", page.HasMore, page.Cursor)
		}
		for _, j := range page.Jobs {
			found = append(found, j.ID)
		}
		if !page.HasMore {
			return found, page.Total
		}
		if len(page.Jobs) != q.Limit {
			t.Fatalf("a page in the middle has %d jobs, not %d", len(page.Jobs), q.Limit)
		}
		q.Cursor = page.Cursor
	}
}

func TestSearchFilters(t *testing.T) {
	t.Parallel()
	h, ids := mixture(t)
	state := func(i int) job.State {
		return [...]job.State{job.Pending, job.Completed, job.Dead, job.Active}[i%4]
	}
	for _, q := range []Query{
		{},
		{Queue: "q1"},
		{Queue: "q1", States: []job.State{job.Dead}},
		{Queue: "q1", States: []job.State{job.Dead, job.Pending, job.Dead}},
		{States: []job.State{job.Completed}},
		{States: []job.State{job.Active, job.Completed, job.Pending, job.Scheduled}},
		{States: []job.State{job.Held}},
		{Queue: "nobody"},
		{IDPrefix: "job_"},
		{IDPrefix: "j"},
		{IDPrefix: ids[40].String()},
		{IDPrefix: strings.ToLower(ids[40].String()[4:])},
		{IDPrefix: "job_" + strings.ToLower(ids[40].String()[4:])},
		{IDPrefix: ids[40].String()[:13]},
		{IDPrefix: ids[40].String()[:13], Queue: "q1", States: []job.State{job.Completed, job.Dead}},
		{IDPrefix: "job_ZZ"},
		{Queues: []string{}},
		{Queues: []string{"q1"}},
		{Queues: []string{"q2", "nobody", "q0", "q2"}},
		{Queues: []string{"q2", "q0"}, States: []job.State{job.Dead, job.Pending}},
		{Queues: []string{"nobody"}},
		{Queue: "q1", Queues: []string{"q1", "q2"}},
		{Queue: "q1", Queues: []string{"q0", "q2"}},
		{IDPrefix: ids[40].String()[:13], Queues: []string{"q1", "q2"}, States: []job.State{job.Completed, job.Dead}},
		{IDPrefix: ids[40].String()[:13], Queues: []string{}},
	} {
		for _, order := range []Order{Descending, Ascending} {
			for _, limit := range []int{1, 7, 60, 1000} {
				q.Order, q.Limit = order, limit
				var want []string
				for i, id := range ids {
					prefix := q.IDPrefix
					if strings.HasPrefix(prefix, "job_") {
						prefix = "job_" + strings.ToUpper(prefix[4:])
					}
					queue := fmt.Sprint("q", i%3)
					inQueue := (q.Queue == "" || q.Queue == queue) && (q.Queues == nil || slices.Contains(q.Queues, queue))
					inState := len(q.States) == 0 || slices.Contains(q.States, state(i))
					if inQueue && inState && strings.HasPrefix(id.String(), prefix) {
						want = append(want, id.String())
					}
				}
				if order == Descending {
					slices.Reverse(want)
				}
				got, total := pages(t, h, q)
				if !slices.Equal(got, want) || total != int64(len(want)) {
					t.Errorf("%+v found\n%q (%d)\nwant\n%q", q, got, total, want)
				}
			}
		}
	}
}

// TestSearchInManyQueues searches a frequent state in as many queues as a search reads one by one, and in one
// more.
func TestSearchInManyQueues(t *testing.T) {
	t.Parallel()
	for _, queues := range []int{maxQueueBranches, maxQueueBranches + 1} {
		h := newShard(t)
		var want []string
		for i := range queues * 2 {
			want = append(want, h.enqueue(fmt.Sprint("q", i%queues), 1)[0].String())
		}
		h.settle()
		slices.Reverse(want)
		got, total := pages(t, h, Query{States: []job.State{job.Pending}, Limit: 5})
		if !slices.Equal(got, want) || total != int64(queues*2) {
			t.Errorf("%d queues: found %q (%d)", queues, got, total)
		}
	}
}

func TestPrefixCountIsBounded(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	for range 4 {
		h.enqueue("q", maxRange/4)
	}
	h.enqueue("q", 20)
	last := h.enqueue("r", 1)[0]
	h.settle()
	for _, c := range []struct {
		prefix   string
		estimate bool
	}{
		{job.ID{}.String()[:8], true},
		{last.String()[:12], false},
	} {
		page, err := h.view.Search(t.Context(), Query{IDPrefix: c.prefix, Limit: 3})
		must(t, err)
		if page.TotalIsEstimate != c.estimate || page.Jobs[0].ID != last.String() || len(page.Jobs) > 3 {
			t.Errorf("%s: %d of %d, estimated: %v", c.prefix, len(page.Jobs), page.Total, page.TotalIsEstimate)
		}
		// The total is the page, one more job, and the jobs that were counted.
		if want := int64(3 + 1 + countRows); c.estimate && page.Total != want {
			t.Errorf("%s: counted %d, want %d", c.prefix, page.Total, want)
		}
	}
}

// TestPagesAreStableUnderWrites reads pages while jobs are created and changed.
func TestPagesAreStableUnderWrites(t *testing.T) {
	t.Parallel()
	h, ids := mixture(t)
	for _, order := range []Order{Descending, Ascending} {
		seen := map[string]int{}
		q := Query{Order: order, Limit: 7}
		for more := true; more && len(seen) < 1000; {
			page, err := h.view.Search(t.Context(), q)
			must(t, err)
			for _, j := range page.Jobs {
				seen[j.ID]++
			}
			q.Cursor, more = page.Cursor, page.HasMore
			h.enqueue("q0", 3)
			h.settle()
		}
		for _, id := range ids {
			if seen[id.String()] != 1 {
				t.Errorf("%s: job %s was seen %d times", order, id, seen[id.String()])
			}
		}
	}
}

func TestRefusedQueries(t *testing.T) {
	t.Parallel()
	h, _ := mixture(t)
	page, err := h.view.Search(t.Context(), Query{Queue: "q1", States: []job.State{job.Dead, job.Pending}, Limit: 1})
	must(t, err)
	cursor := page.Cursor
	// The same filter, written differently.
	_, err = h.view.Search(t.Context(), Query{Queue: "q1", States: []job.State{job.Pending, job.Dead, job.Pending}, Limit: 9, Order: "desc", Cursor: cursor})
	must(t, err)

	tampered, err := base64.RawURLEncoding.DecodeString(cursor)
	must(t, err)
	tampered[1] = 0xff // changes the hash
	for name, q := range map[string]Query{
		"other queue":  {Queue: "q2", States: []job.State{job.Dead, job.Pending}, Cursor: cursor},
		"other states": {Queue: "q1", States: []job.State{job.Dead}, Cursor: cursor},
		"other prefix": {Queue: "q1", States: []job.State{job.Dead, job.Pending}, IDPrefix: "job_0", Cursor: cursor},
		"other order":  {Queue: "q1", States: []job.State{job.Dead, job.Pending}, Order: Ascending, Cursor: cursor},
		"no base64":    {Cursor: "%%%"},
		"short":        {Cursor: cursor[:10]},
		"long":         {Cursor: strings.Repeat(cursor, 1000)},
		"huge number":  {Queue: "q1", States: []job.State{job.Dead, job.Pending}, Cursor: base64.RawURLEncoding.EncodeToString(tampered)},
		"text":         {Cursor: "eyJvZmZzZXQiOjUwfQ"},
		"low limit":    {Limit: -1},
		"high limit":   {Limit: job.MaxSearchLimit + 1},
		"order":        {Order: "sideways; DROP TABLE hot"},
		"state":        {States: []job.State{job.States}},
		"no state":     {States: []job.State{0}},
		"long prefix":  {IDPrefix: strings.Repeat("0", 31)},
		"many queues":  {Queues: make([]string, job.MaxQueues+1)},
	} {
		if _, err := h.view.Search(t.Context(), q); api.CodeOf(err) != api.ValidationError {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = h.view.Search(t.Context(), Query{Limit: -1, Order: "x", States: []job.State{99}, IDPrefix: strings.Repeat("0", 31), Cursor: "x"})
	var refused *api.Error
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	for _, part := range []string{"limit", "order", "state", "job_id_prefix"} {
		if told := fmt.Sprint(refused.Details); !strings.Contains(told, part) {
			t.Errorf("%v does not tell of %s", told, part)
		}
	}
	for _, q := range []Query{{Limit: job.MaxSearchLimit}, {Queues: make([]string, job.MaxQueues)}} {
		_, err = h.view.Search(t.Context(), q)
		must(t, err)
	}
}

// TestHostileText uses names that would be syntax if they became part of a statement. (The store refuses such
// queue names; the view must not depend on that.)
func TestHostileText(t *testing.T) {
	t.Parallel()
	h, _ := mixture(t)
	for _, text := range []string{
		"'", `"`, "q1' OR '1'='1", "q1'; DROP TABLE hot; --", "%", "_", "q_", "q%", "job_%", "job__", "\x00", "q1\x00", "\xff\xfe", "job_\xff", "job_0\x00", "ü", "job_ı", "*", "[a-z]*",
	} {
		page, err := h.view.Search(t.Context(), Query{Queue: text})
		must(t, err)
		if len(page.Jobs) != 0 || page.Total != 0 || page.Jobs == nil {
			t.Errorf("queue %q: %d jobs of %d", text, len(page.Jobs), page.Total)
		}
		page, err = h.view.Search(t.Context(), Query{IDPrefix: text})
		must(t, err)
		if len(page.Jobs) != 0 || page.Total != 0 {
			t.Errorf("prefix %q: %d jobs of %d", text, len(page.Jobs), page.Total)
		}
		page, err = h.view.Search(t.Context(), Query{Queues: []string{text}})
		must(t, err)
		if len(page.Jobs) != 0 || page.Total != 0 {
			t.Errorf("queues %q: %d jobs of %d", text, len(page.Jobs), page.Total)
		}
		q, err := h.view.Queue(text)
		if q != nil || err != nil {
			t.Errorf("queue %q: %v, %v", text, q, err)
		}
	}
	if page, err := h.view.Search(t.Context(), Query{}); err != nil || page.Total != 60 {
		t.Errorf("%d jobs are left: %v", page.Total, err)
	}
}

// TestPageIsBoundedInBytes has payloads so large that only some fit on a page.
func TestPageIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	var want []string
	big := `"` + strings.Repeat("x", job.DefaultMaxPayload-2) + `"`
	for range maxPageBytes/job.DefaultMaxPayload + 2 {
		h.commit(func(tx *state.Tx) {
			tx.EnsureQueue("q")
			j := h.newJob(tx, "q")
			must(t, tx.PutBlob(j, job.Payload, payload(big)))
			must(t, tx.CreateJob(j, evEnqueued))
			want = append(want, job.ID(j.Id).String())
		})
	}
	h.settle()
	first, err := h.view.Search(t.Context(), Query{Order: Ascending})
	must(t, err)
	if len(first.Jobs) != maxPageBytes/job.DefaultMaxPayload || !first.HasMore || first.Total != int64(len(want)) {
		t.Fatalf("a page has %d jobs of %d, more: %v", len(first.Jobs), first.Total, first.HasMore)
	}
	rest, err := h.view.Search(t.Context(), Query{Order: Ascending, Cursor: first.Cursor})
	must(t, err)
	if len(rest.Jobs) != 2 || rest.HasMore || rest.Jobs[0].ID != want[len(first.Jobs)] {
		t.Fatalf("the rest has %d jobs, more: %v", len(rest.Jobs), rest.HasMore)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.settle()
	if queues, err := h.view.Queues(t.Context(), nil); err != nil || queues == nil || len(queues) != 0 {
		t.Fatalf("%v, %v", queues, err)
	}
	if names, err := h.view.QueueNames(t.Context()); err != nil || names == nil || len(names) != 0 {
		t.Fatalf("%v, %v", names, err)
	}
	ids := h.enqueue("b", 4)
	created := h.store.Head().ClockNs
	h.enqueue("a", 1)
	h.ack2(ids[0])
	h.fetch(ids[1], "w")
	h.fail(ids[1], job.Retrying, "e")
	h.commit(func(tx *state.Tx) {
		q := tx.EnsureQueue("b")
		q.Paused, q.MaxConcurrency = true, 3
		tx.PutQueue(q, evPaused)
	})
	h.settle()
	names, err := h.view.QueueNames(t.Context())
	must(t, err)
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("the queues are %q", names)
	}
	only, err := h.view.Queues(t.Context(), func(name string) bool { return name == "b" })
	must(t, err)
	if len(only) != 1 || only[0].Name != "b" {
		t.Errorf("of b alone there are %+v", only)
	}
	queues, err := h.view.Queues(t.Context(), nil)
	must(t, err)
	if len(queues) != 2 || queues[0].Name != "a" {
		t.Fatalf("%+v", queues)
	}
	if a := queues[0]; a.Status != api.QueueActive || a.MaxConcurrency != nil {
		t.Errorf("%+v, want an active queue without a limit", a)
	}
	b, err := h.view.Queue("b")
	must(t, err)
	want, oldest, limit := *b, timeOf(created), 3
	want.Pending, want.Completed, want.Retrying, want.Enqueued, want.Failed = 2, 1, 1, 4, 1
	want.Paused, want.Status, want.MaxConcurrency, want.OldestPendingAt = true, api.QueuePaused, &limit, &oldest
	if diff := cmp.Diff(want, *b); diff != "" {
		t.Fatalf("the queue b (-want +got):\n%s", diff)
	}
	for _, id := range ids[2:] {
		h.fetch(id, "w")
	}
	h.settle()
	if b, err = h.view.Queue("b"); err != nil || b.OldestPendingAt != nil || b.Active != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
}

// TestPlans checks that no branch of a search sorts, or scans more than a page. (Merging branches sorts a
// page of numbers from each.)
func TestPlans(t *testing.T) {
	t.Parallel()
	h, ids := mixture(t)
	for _, c := range []struct {
		q    Query
		plan string // of every branch
	}{
		{Query{}, "SEARCH h USING INTEGER PRIMARY KEY"},
		{Query{Order: Ascending}, "SEARCH h USING INTEGER PRIMARY KEY"},
		{Query{Queue: "q1"}, "SEARCH h USING COVERING INDEX hot_by_queue_state (queue=? AND state=? AND rowid>? AND rowid<?)"},
		{Query{Queue: "q1", States: []job.State{job.Dead, job.Completed}, Order: Ascending}, "SEARCH h USING COVERING INDEX hot_by_queue_state (queue=? AND state=? AND rowid>? AND rowid<?)"},
		{Query{States: []job.State{job.Pending}}, "SEARCH h USING COVERING INDEX hot_by_queue_state (queue=? AND state=? AND rowid>? AND rowid<?)"},
		{Query{States: []job.State{job.Dead, job.Active}}, "SEARCH h USING COVERING INDEX hot_by_rare_state (state=? AND rowid>? AND rowid<?)"},
		// All jobs are in these queues, so their states are many ranges for one page.
		{Query{Queues: []string{"q0", "q1", "q2"}, Limit: 3}, "SEARCH h USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{Query{Queues: []string{"q0", "q1", "q2"}, States: []job.State{job.Dead, job.Pending}, Limit: 3, Order: Ascending}, "SEARCH h USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		// If conditions concern only documents, the search reads only documents.
		{Query{PayloadContains: "x"}, "SEARCH d2 USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{Query{PayloadJQ: ".n == 1", Tags: map[string]string{"a": "b"}}, "SEARCH d2 USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		{Query{PayloadContains: "x", Priority: new(int)}, "SEARCH h USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		// This search sorts a page of numbers of each range.
		{Query{Queues: []string{"q1"}, States: []job.State{job.Dead}}, "SEARCH x USING COVERING INDEX hot_by_queue_state (queue=? AND state=? AND rowid>? AND rowid<?)"},
		// This search sorts at most maxRange numbers.
		{Query{IDPrefix: ids[3].String()[:12]}, "SEARCH d USING COVERING INDEX document_by_id (id>? AND id<?)"},
	} {
		match, err := c.q.normalize()
		must(t, err)
		must(t, h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			s := begun(ctx, t, tx, c.q, match)
			if len(s.branches) == 0 {
				t.Errorf("%+v has no branch", c.q)
			}
			for _, b := range s.branches {
				s.branches = []branch{b}
				query, args := s.lookUpQuery()
				plan := explain(ctx, t, tx, query, args)
				sorts := c.q.IDPrefix != "" || strings.Contains(c.plan, "SEARCH x")
				alone := strings.Contains(c.plan, "SEARCH d2") && strings.Count(plan, "INTEGER PRIMARY KEY") > 1
				if !strings.Contains(plan, c.plan) || alone || strings.Contains(plan, "TEMP B-TREE") && !sorts {
					t.Errorf("%+v: the plan of\n%s\nis\n%s", c.q, query, plan)
				}
			}
			return nil
		}))
	}
}

func explain(ctx context.Context, t *testing.T, tx *sql.Tx, query string, args []any) (plan string) {
	t.Helper()
	must(t, each(ctx, tx, func(rows *sql.Rows) error {
		var id, parent, unused int
		var detail string
		err := rows.Scan(&id, &parent, &unused, &detail)
		plan += detail + "\n"
		return err
	}, "EXPLAIN QUERY PLAN "+query, args...))
	return plan
}

// TestContractValues reads the promised names as a person with a SQL shell would.
func TestContractValues(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	id := h.enqueue("q", 1)[0]
	h.fetch(id, "w")
	h.change(id, func(_ *state.Tx, j *job.Job) { j.Usage = &job.Usage{CostNanoUsd: 1_500_000_000} }, evRenewed)
	h.fail(id, job.Dead, "SMTP timeout")
	h.settle()
	must(t, h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		var gotID, state, created, text, at string
		var scheduled sql.NullString
		var cost float64
		must(t, tx.QueryRowContext(ctx, `SELECT j.id, j.state, j.created_at, j.scheduled_at, j.agent_total_cost_usd, e.error, e.created_at
			FROM jobs j JOIN job_errors e ON e.job_id = j.id WHERE j.queue = 'q' AND e.error LIKE '%SMTP%' AND j.created_at < '2026-02-10T00:00:00'`).
			Scan(&gotID, &state, &created, &scheduled, &cost, &text, &at))
		want := "1970-01-01T00:00:00.001000000Z"
		row := map[string]any{"id": gotID, "state": state, "created_at": created, "scheduled_at": scheduled.Valid, "cost": cost, "error": text}
		wanted := map[string]any{"id": id.String(), "state": "dead", "created_at": want, "scheduled_at": false, "cost": 1.5, "error": "SMTP timeout"}
		if diff := cmp.Diff(wanted, row); diff != "" {
			t.Errorf("the row of the job (-want +got):\n%s", diff)
		}
		if len(at) != len(want) {
			t.Errorf("the time of the error is %s, want the form of %s", at, want)
		}
		var queue string
		var enqueued, dead int
		must(t, tx.QueryRowContext(ctx, "SELECT queue, enqueued, dead FROM queue_stats").Scan(&queue, &enqueued, &dead))
		if queue != "q" || enqueued != 1 || dead != 1 {
			t.Errorf("%s %d %d", queue, enqueued, dead)
		}
		return nil
	}))
}

// TestReadersCannotWrite executes a writing statement in a reader's transaction.
func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	h, _ := mixture(t)
	err := h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM hot")
		return err
	})
	if err == nil {
		t.Fatal("a reader deleted")
	}
}

// TestQueryLimit lets a query run into its deadline; the next query must work.
func TestQueryLimit(t *testing.T) {
	t.Parallel()
	h, _ := mixture(t)
	h.reopen(func() { h.limits.query = queryLimit })
	h.settle()
	err := h.view.read(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(*sql.Rows) error { return nil },
			"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n")
	})
	if api.CodeOf(err) != api.Overloaded {
		t.Fatal(err)
	}
	// The only connection still works.
	eventually(t, "a search to be answered", func() bool {
		_, err := h.view.Search(t.Context(), Query{})
		return err == nil
	})
}
