//go:build unix

package perf_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"net/url"
	"path/filepath"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// This file counts the jobs of TestEveryCountIsARecount one by one and compares.

// asks reports whether a flag of a job's payload is set.
func asks(j *api.FetchedJob, flag string) bool {
	var payload map[string]json.RawMessage
	return json.Unmarshal(j.Payload, &payload) == nil && string(payload[flag]) == "true"
}

// place is the queue and state under which a job is counted.
type place struct {
	queue string
	state job.State
}

// counts holds the numbers that come from counting the jobs' records one by one.
type counts struct {
	jobs    int
	errors  int
	in      map[place]int
	queues  map[string]int // jobs
	locks   map[string]int // unique keys, by queue
	batches map[job.ID][job.States]int
}

// recount counts the records and compares every reported number with the count.
func (r *run) recount() (jobs int) {
	cell := r.node.Cells()[0]
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	if err := cell.View().Wait(ctx, uint64(cell.Applied())); err != nil {
		r.t.Fatal(err)
	}
	snap := cell.State().Snapshot()
	defer snap.Close()
	c := r.count(snap)
	if err := snap.Check(); err != nil {
		r.t.Error(err)
	}
	r.recountTotals(snap, c)
	r.recountQueues(c)
	r.recountSearches(c)
	r.recountBatches(c)
	r.recountTables(snap, c)
	return c.jobs
}

func (r *run) count(snap *state.Snapshot) *counts {
	c := &counts{in: map[place]int{}, queues: map[string]int{}, locks: map[string]int{}, batches: map[job.ID][job.States]int{}}
	for j, err := range snap.Jobs() {
		if err != nil {
			r.t.Fatal(err)
		}
		c.jobs++
		c.in[place{j.Queue, j.State}]++
		c.queues[j.Queue]++
		if j.Detail.GetUniqueExpiresNs() > 0 && (j.Options.GetUniqueWholePeriod() || !j.State.Settled()) {
			c.locks[j.Queue]++
		}
		if j.Batch != nil {
			members := c.batches[job.ID(j.Batch.BatchId)]
			members[j.State]++
			c.batches[job.ID(j.Batch.BatchId)] = members
		}
		if j.State == job.Completed && j.Attempt == 1 && j.AttemptBase == 0 {
			continue // nothing failed, so it has no error records
		}
		errs, err := snap.Errors(job.ID(j.Id))
		if err != nil {
			r.t.Fatal(err)
		}
		c.errors += len(errs)
	}
	return c
}

// same compares a reported number with the counted one.
func (r *run) same(what, where string, said, counted int) {
	r.t.Helper()
	if said != counted {
		r.t.Errorf("%s of %s: %d are said, and there are %d", what, where, said, counted)
	}
}

// recountTotals compares the totals of queues with the answers to clients.
func (r *run) recountTotals(snap *state.Snapshot, c *counts) {
	followed := map[string]bool{"callbacks": true, "first": true, "second": true, "third": true, "exits": true, "alerts": true, "ticks": true}
	for q, err := range snap.Queues() {
		if err != nil {
			r.t.Fatal(err)
		}
		var h heard
		if of := r.queues[q.Name]; of != nil {
			h = *of
		}
		r.same("jobs ever", q.Name, int(q.Enqueued), c.queues[q.Name]+h.deleted)
		if !followed[q.Name] { // only requests create jobs in it
			r.same("jobs ever enqueued", q.Name, int(q.Enqueued), h.enqueued)
		}
		r.same("completed ever", q.Name, int(q.Completed), h.acked)
		r.same("completed", q.Name, c.in[place{q.Name, job.Completed}], h.acked)
		r.same("failed attempts", q.Name, int(q.Failed), h.failed)
		r.same("dead ever", q.Name, int(q.Dead), c.in[place{q.Name, job.Dead}]+h.revived)
		r.same("cancelled ever", q.Name, int(q.Cancelled), c.in[place{q.Name, job.Cancelled}]+h.deleted) // deleting a live one cancels it
		r.same("unique keys", q.Name, int(q.UniqueLocks), c.locks[q.Name])
		for s := range job.States {
			r.same(job.State(s).Word()+" in the store", q.Name, int(q.InState[s]), c.in[place{q.Name, job.State(s)}])
		}
	}
}

// live lists the states that a job can be in.
var live = []job.State{job.Pending, job.Active, job.Scheduled, job.Retrying, job.Held, job.Completed, job.Dead, job.Cancelled}

// recountQueues compares the answer of GET /queues.
func (r *run) recountQueues(c *counts) {
	var all []api.Queue
	r.call("GET", "/queues", "", &all)
	r.same("queues", "the namespace", len(all), len(c.queues))
	for _, q := range all {
		said := [job.States]int64{
			job.Pending: q.Pending, job.Active: q.Active, job.Scheduled: q.Scheduled, job.Retrying: q.Retrying,
			job.Held: q.Held, job.Completed: q.Completed, job.Dead: q.Dead, job.Cancelled: q.Cancelled,
		}
		for _, s := range live {
			r.same(s.Word(), q.Name, int(said[s]), c.in[place{q.Name, s}])
		}
		h := r.queues[q.Name]
		if h == nil {
			h = &heard{}
		}
		r.same("enqueued", q.Name, int(q.Enqueued), c.queues[q.Name]+h.deleted)
		r.same("failed", q.Name, int(q.Failed), h.failed)
		r.same("unique_locks", q.Name, int(q.UniqueLocks), c.locks[q.Name])
	}
}

// recountSearches compares the totals of searches.
func (r *run) recountSearches(c *counts) {
	every := [job.States]int{}
	for queue, n := range c.queues {
		r.same("a search for all", queue, r.found(object{"queue": queue}), n)
		for _, s := range live {
			r.same("a search for "+s.Word(), queue, r.found(object{"queue": queue, "state": []string{s.Word()}}), c.in[place{queue, s}])
			every[s] += c.in[place{queue, s}]
		}
	}
	for _, s := range live {
		if every[s] == 0 {
			r.t.Errorf("there is no %s job: the count proves nothing", s.Word())
		}
		r.same("a search for "+s.Word(), "all queues", r.found(object{"state": []string{s.Word()}}), every[s])
	}
	r.same("a search", "everything", r.found(object{}), c.jobs)
	var dead api.SearchResponse
	r.call("GET", "/dead?limit=1", "", &dead)
	r.same("GET /dead", "all queues", int(dead.Total), every[job.Dead])
}

// found returns the total of a search that counters can answer.
func (r *run) found(filter object) int {
	r.t.Helper()
	var found api.SearchResponse
	filter["limit"] = 1
	r.send("POST", "/jobs/search", filter, &found)
	if found.TotalIsEstimate {
		r.t.Errorf("a search for %v estimates its total, though counters tell it", filter)
	}
	return int(found.Total)
}

// listed counts the jobs that a search returns, page by page. No counter answers its filter, and on a busy
// machine its total is an estimate.
func (r *run) listed(filter object) (n int) {
	r.t.Helper()
	for !r.t.Failed() {
		var found api.SearchResponse
		r.send("POST", "/jobs/search", filter, &found)
		n += len(found.Jobs)
		if !found.HasMore {
			return n
		}
		filter["cursor"] = found.Cursor
	}
	return n
}

// searchedBatches is the number of batches whose members are searched for.
const searchedBatches = 20

// recountBatches compares the answer of GET /batches/{id}.
func (r *run) recountBatches(c *counts) {
	r.same("batches", "the namespace", len(r.batches), len(c.batches))
	searched := 0
	for id, deleted := range r.batches {
		var said api.Batch
		r.call("GET", "/batches/"+id, "", &said)
		m := c.batches[r.batchID(id)]
		if said.Status != api.BatchCompleted || said.Pending != 0 {
			r.t.Errorf("batch %s is %s with %d pending", id, said.Status, said.Pending)
		}
		r.same("members", id, int(said.Total), 50)
		r.same("succeeded", id, int(said.Succeeded), m[job.Completed])
		r.same("failed", id, int(said.Failed), m[job.Dead])
		r.same("cancelled", id, int(said.Cancelled), m[job.Cancelled]+deleted)
		if searched++; searched <= searchedBatches {
			r.same("a search for members", id, r.listed(object{"batch_id": id}), 50-deleted)
		}
	}
}

func (r *run) batchID(id string) job.ID {
	parsed, err := job.ParseBatchID(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return parsed
}

// recountTables compares the SQL tables that users may read.
func (r *run) recountTables(snap *state.Snapshot, c *counts) {
	file := (&url.URL{Scheme: "file", OmitHost: true, Path: filepath.Join(r.dir, "view.db"), RawQuery: "mode=ro"}).String()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	in := map[place]int{}
	each(r, db, `SELECT queue, state, count(*) FROM jobs GROUP BY 1, 2`, func(scan func(...any)) {
		var queue, word string
		var n int
		scan(&queue, &word, &n)
		s, ok := job.ParseState(word)
		if !ok {
			r.t.Errorf("the table jobs has the state %q", word)
		}
		in[place{queue, s}] = n
	})
	if !maps.Equal(in, c.in) {
		r.t.Errorf("the table jobs has %v, there are %v", in, c.in)
	}
	r.same("rows", "job_errors", r.scalar(db, `SELECT count(*) FROM job_errors`), c.errors)
	r.recountStats(snap, db)
	locks := map[string]int{}
	each(r, db, `SELECT queue, count(*) FROM unique_locks GROUP BY 1`, func(scan func(...any)) {
		var queue string
		var n int
		scan(&queue, &n)
		locks[queue] = n
	})
	if !maps.Equal(locks, c.locks) {
		r.t.Errorf("the table unique_locks has %v, there are %v", locks, c.locks)
	}
	rows := 0
	each(r, db, `SELECT id, total, pending, succeeded, failed, cancelled FROM batches`, func(scan func(...any)) {
		var id string
		var total, pending, succeeded, failed, cancelled int
		scan(&id, &total, &pending, &succeeded, &failed, &cancelled)
		rows++
		m := c.batches[r.batchID(id)]
		want := [5]int{50, 0, m[job.Completed], m[job.Dead], m[job.Cancelled] + r.batches[id]}
		if got := [5]int{total, pending, succeeded, failed, cancelled}; got != want {
			r.t.Errorf("the table batches has %v of %s, there are %v", got, id, want)
		}
	})
	r.same("rows", "batches", rows, len(c.batches))
	r.same("rows", "schedules", r.scalar(db, `SELECT count(*) FROM schedules WHERE name = 'ticking' AND paused AND next_run IS NULL`), 1)
	r.same("rows", "workers", r.scalar(db, `SELECT count(*) FROM workers`), 1)
}

// recountStats compares queue_stats with the totals, which recountTotals has compared with the answers to
// clients.
func (r *run) recountStats(snap *state.Snapshot, db *sql.DB) {
	stats := map[string][4]uint64{}
	for q, err := range snap.Queues() {
		if err != nil {
			r.t.Fatal(err)
		}
		stats[q.Name] = [4]uint64{q.Enqueued, q.Completed, q.Failed, q.Dead}
	}
	said := map[string][4]uint64{}
	each(r, db, `SELECT queue, enqueued, completed, failed, dead FROM queue_stats`, func(scan func(...any)) {
		var queue string
		var n [4]uint64
		scan(&queue, &n[0], &n[1], &n[2], &n[3])
		said[queue] = n
	})
	if !maps.Equal(said, stats) {
		r.t.Errorf("the table queue_stats has %v, the store %v", said, stats)
	}
}

func (r *run) scalar(db *sql.DB, query string) (n int) {
	each(r, db, query, func(scan func(...any)) { scan(&n) })
	return n
}

// each scans the rows of a query.
func each(r *run, db *sql.DB, query string, row func(scan func(...any))) {
	r.t.Helper()
	rows, err := db.QueryContext(r.t.Context(), query)
	if err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		row(func(into ...any) {
			if err := rows.Scan(into...); err != nil {
				r.t.Fatalf("%s: %v", query, err)
			}
		})
	}
	if err := rows.Err(); err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
}
