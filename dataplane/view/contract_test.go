package view

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// TestContract compares the columns of the SQL views, and their types, with the contract.
func TestContract(t *testing.T) {
	t.Parallel()
	h, _ := mixture(t)
	promised, err := os.ReadFile("testdata/contract.txt")
	must(t, err)
	checked, superseded := 0, 0
	for line := range strings.Lines(string(promised)) {
		if name, _, ok := strings.Cut(line, " = superseded by "); ok {
			if got := h.columns(name); len(got) > 0 {
				t.Errorf("there is a table %s", name)
			}
			superseded++
		}
		name, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
		ok = ok && !strings.Contains(name, " ")
		if !ok {
			continue
		}
		checked++
		want := strings.Split(strings.Replace(text, " + ", ", ", 1), ", ")
		got := h.columns(name)
		for i := range max(len(got), len(want)) {
			switch {
			case i >= len(got):
				t.Errorf("%s has no column %s", name, want[i])
			case i >= len(want):
				t.Errorf("%s has the column %s, which nobody is promised", name, got[i])
			// SQLite reports no type for a column that is always NULL in this version.
			case got[i] != want[i] && !(strings.HasSuffix(got[i], " ") && strings.HasPrefix(want[i], got[i])):
				t.Errorf("column %d of %s is %q, should be %q", i+1, name, got[i], want[i])
			}
		}
	}
	if checked != 21 || superseded != 3 {
		t.Fatalf("compared %d tables, and %d that are superseded", checked, superseded)
	}
}

// TestConstantsAreNamed compares the columns to which the schema gives one value with those that the contract
// lists, each with its reason.
func TestConstantsAreNamed(t *testing.T) {
	t.Parallel()
	promised, err := os.ReadFile("testdata/contract.txt")
	must(t, err)
	named := map[string]string{}
	for line := range strings.Lines(string(promised)) {
		column, rest, _ := strings.Cut(line, " = always ")
		if value, reason, ok := strings.Cut(rest, ": "); ok && strings.TrimSpace(reason) != "" {
			named[column] = value
		}
	}
	table, constants := "", map[string]string{}
	view := regexp.MustCompile(`^CREATE VIEW (\w+) AS`)
	constant := regexp.MustCompile(`CAST\((NULL|-?[0-9.]+|'[^']*') AS \w+\)\s+AS (\w+)`)
	for line := range strings.Lines(contractSource) {
		if m := view.FindStringSubmatch(line); m != nil {
			table = m[1]
		}
		if m := constant.FindStringSubmatch(line); m != nil {
			constants[table+"."+m[2]] = m[1]
		}
	}
	if len(constants) == 0 || !maps.Equal(named, constants) {
		t.Errorf("the contract names the constants %v, the schema has %v", named, constants)
	}
}

// columns returns a table's columns, each with its type. It turns INT into INTEGER, because SQLite reports
// INT for a computed whole number.
func (h *shard) columns(table string) (all []string) {
	h.t.Helper()
	must(h.t, h.view.read(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			var name, kind string
			err := rows.Scan(&name, &kind)
			if kind == "INT" {
				kind = "INTEGER"
			}
			all = append(all, name+" "+kind)
			return err
		}, "SELECT name, type FROM pragma_table_info(?)", table)
	}))
	return all
}

// shell runs a statement as a person with a SQL shell would, and returns its rows as text.
func (h *shard) shell(query string) (out string) {
	h.t.Helper()
	h.settle()
	must(h.t, h.view.read(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			names, err := rows.Columns()
			must(h.t, err)
			values, into := make([]any, len(names)), make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			must(h.t, rows.Scan(into...))
			for i, v := range values {
				if i > 0 {
					out += "|"
				}
				if v != nil {
					out += fmt.Sprint(v)
				}
			}
			out += "\n"
			return nil
		}, query)
	}))
	return out
}

func (h *shard) says(query, want string) {
	h.t.Helper()
	if got := h.shell(query); strings.TrimSpace(got) != want {
		h.t.Errorf("%s says\n%s\nwant\n%s", query, got, want)
	}
}

func TestContractOfAFullJob(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	var id job.ID
	h.commit(func(tx *state.Tx) {
		tx.EnsureQueue("q")
		j := h.newJob(tx, "q")
		id = job.ID(j.Id)
		must(t, tx.PutBlob(j, job.Payload, payload(`{}`)))
		h.fill(tx, j)
		j.State, j.Details().HoldReason = job.Held, "look"
		must(t, tx.CreateJob(j, evHeld))
	})
	h.says("SELECT unique_key, batch_id, parent_id, chain_id, chain_step, hold_reason, expire_at, started_at FROM jobs",
		"key-1|batch_"+idWord("", job.ID(otherID(10)))+"|job_"+idWord("", job.ID(otherID(1)))+"|chain_"+idWord("", job.ID(otherID(20)))+
			"|0|look|1970-01-01T00:00:05.001000000Z|")
	h.says("SELECT chain_config FROM jobs", `{"steps":[{"queue":"a"},{"queue":"b"},{"queue":"c","payload":null}],`+
		`"on_failure":{"queue":"alerts","payload":[1,2]},"on_exit":{"queue":"cleanup"}}`)
	h.says("SELECT * FROM unique_locks", "q|key-1|"+id.String()+"|1970-01-01T01:00:00.001000000Z")
}

func TestContractOfAnAgentsJob(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	const agent = "SELECT agent_max_iterations, agent_max_cost_usd, agent_iteration_timeout, agent_iteration, agent_total_cost_usd, result_schema FROM jobs"
	h.enqueue("plain", 1)
	h.says(agent, "|||0|0|")
	id := h.enqueue("q", 1)[0]
	h.change(id, func(tx *state.Tx, j *job.Job) {
		j.Opt().Agent = &job.AgentConfig{MaxIterations: 20, MaxCostNanoUsd: 5_100_000_000, IterationTimeoutMs: 90_000}
		j.Details().Iteration, j.Detail.SpentBeforeNanoUsd = 4, 2e9
		j.Usage = &job.Usage{CostNanoUsd: 100_000_001}
	}, evProgress)
	h.says(agent+" WHERE queue = 'q'", "20|5.1|1m30s|4|2.100000001|")
	h.same()
	h.commit(func(tx *state.Tx) {
		j := h.newJob(tx, "q")
		must(t, tx.PutBlob(j, job.ResultSchema, payload(`{"type":"object"}`)))
		must(t, tx.CreateJob(j, evEnqueued))
	})
	h.says("SELECT result_schema FROM jobs ORDER BY created_at DESC LIMIT 1", `{"type":"object"}`)
	h.same()
}

// TestUniqueLocks creates jobs that hold their unique keys and jobs that do not, in each state, and checks
// which keys unique_locks shows.
func TestUniqueLocks(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	keyed := func(key string, in job.State, whole bool) {
		h.commit(func(tx *state.Tx) {
			tx.EnsureQueue("q")
			j := h.newJob(tx, "q")
			j.Opt().UniqueKey, j.Opt().UniquePeriodMs, j.Details().UniqueExpiresNs, j.Opt().UniqueWholePeriod = key, 1000, tx.ClockNs()+1, whole
			h.stand(tx, j, in)
			must(t, tx.CreateJob(j, evEnqueued))
		})
	}
	for in := job.Scheduled; in <= job.Cancelled; in++ {
		keyed("live-"+in.Word(), in, false)
		keyed("whole-"+in.Word(), in, true)
	}
	given := h.enqueue("q", 1)[0]
	h.change(given, func(_ *state.Tx, j *job.Job) { j.Opt().UniqueKey = "given back" }, evUnlocked)
	want := []string{"live-active", "live-held", "live-pending", "live-retrying", "live-scheduled",
		"whole-active", "whole-cancelled", "whole-completed", "whole-dead", "whole-held", "whole-pending", "whole-retrying", "whole-scheduled"}
	h.says("SELECT unique_key FROM unique_locks ORDER BY 1", strings.Join(want, "\n"))
	// The store must count as many locks.
	if q := h.store.Head(); q.LockRecords != uint64(len(want)) {
		t.Errorf("the store has %d locks", q.LockRecords)
	}
}

// TestWorkers checks the table with two workers, of which one has no active job any more, and then with none.
func TestWorkers(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	a, b, c := h.enqueue("q", 1)[0], h.enqueue("p", 1)[0], h.enqueue("q", 1)[0]
	h.fetch(a, "w")
	h.fetch(b, "w")
	h.fetch(c, "gone")
	h.ack(c, "")
	h.commit(func(tx *state.Tx) {
		h.edit(tx, a, func(tx *state.Tx, j *job.Job) { j.Lease.ExpiresNs = tx.ClockNs() + 60e9 }, evRenewed)
	})
	h.says("SELECT * FROM workers", `w|host-w|["p","q"]|1970-01-01T00:00:00.008000000Z|1970-01-01T00:00:00.004000000Z`)
	h.says("SELECT count(*) FROM (SELECT 1 FROM workers WHERE id = 'nobody')", "0")
	if plan := h.shell("EXPLAIN QUERY PLAN SELECT * FROM workers"); !strings.Contains(plan, "hot_by_rare_state") {
		t.Errorf("the plan is %s", plan)
	}
	h.ack(a, "")
	h.ack(b, "")
	h.says("SELECT count(*) FROM workers", "0")
}

func TestBatchRows(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	id := job.ID(otherID(10))
	h.commit(func(tx *state.Tx) {
		must(t, tx.PutBatchPayload(id, payload(`{"to":1}`)))
		must(t, tx.PutBatch(&state.Batch{Id: id[:], Total: 5, Open: true, CallbackQueue: "done", CallbackPayload: true, ParentId: otherID(11),
			CreatedNs: tx.ClockNs()}, evBatchChanged))
	})
	name := "batch_" + idWord("", id)
	h.says("SELECT * FROM batches", name+`|5|5|0|0|done|{"to":1}|1970-01-01T00:00:00.001000000Z|0|1||batch_`+idWord("", job.ID(otherID(11))))
	h.commit(func(tx *state.Tx) {
		b, err := tx.Batch(id)
		must(t, err)
		b.Open, b.Succeeded, b.Failed, b.Cancelled, b.CompletedNs = false, 2, 1, 1, tx.ClockNs()
		must(t, tx.PutBatch(b, evBatchCompleted))
	})
	h.says("SELECT id, total, pending, succeeded, failed, cancelled, open, completed_at FROM batches", name+"|5|1|2|1|1|0|1970-01-01T00:00:00.002000000Z")
	h.same()
	h.commit(func(tx *state.Tx) { must(t, tx.DeleteBatch(id)) })
	h.says("SELECT * FROM batches", "")
}

func TestScheduleRows(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	id := job.ID(otherID(30))
	h.commit(func(tx *state.Tx) {
		must(t, tx.PutSchedule(&state.Schedule{Id: id[:], Name: "nightly", Queue: "q", Cron: "0 3 * * *", Timezone: "Europe/Berlin", Payload: payload(`{}`),
			UniqueKey: "u", MaxAttempts: 3, Priority: job.Normal, Missed: state.Missed_MISSED_ALL, JitterMs: 5,
			LastRunNs: 1, NextRunNs: 2, CreatedNs: tx.ClockNs()}, ""))
	})
	h.says("SELECT * FROM schedules", "sched_"+idWord("", id)+"|nightly|q|0 3 * * *|Europe/Berlin|{}|u|3|1970-01-01T00:00:00.000000001Z|"+
		"1970-01-01T00:00:00.000000002Z|1970-01-01T00:00:00.001000000Z|2|all|5|0")
	h.same()
	// A paused schedule shows no next run, as in GET /schedules, although its record keeps the time.
	h.commit(func(tx *state.Tx) {
		s, err := tx.Schedule(id)
		must(t, err)
		s.Paused = true
		must(t, tx.PutSchedule(s, s.Name))
	})
	h.says("SELECT paused, next_run FROM schedules", "1|")
	h.commit(func(tx *state.Tx) { must(t, tx.DeleteSchedule(id)) })
	h.says("SELECT * FROM schedules", "")
	h.same()
}

// TestCountersOutliveJobs purges and deletes every job of a queue and checks that the queue's totals stay.
func TestCountersOutliveJobs(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 4)
	for i, id := range ids {
		h.fetch(id, "w")
		if i < 2 {
			h.ack(id, `"done"`)
		} else {
			h.fail(id, job.Dead, "boom")
		}
	}
	const totals = "q|4|2|2|2"
	h.says("SELECT * FROM queue_stats", totals)
	h.commit(func(tx *state.Tx) {
		for i, id := range ids {
			j, err := tx.Job(id)
			must(t, err)
			must(t, tx.DeleteJob(j, []state.EventType{evPurged, evDeleted}[i%2]))
		}
	})
	h.says("SELECT * FROM queue_stats", totals)
	for _, table := range []string{"jobs", "job_errors", "work", "hot", "document"} {
		h.says("SELECT count(*) FROM "+table, "0")
	}
	sameAsStore(t, h)
	h.reopen(nil) // a view without jobs must continue the job numbers of the store
	again := h.enqueue("q", 1)
	h.shows("q", again...)
	h.same()
	h.says("SELECT * FROM queue_stats", "q|5|2|2|2")
}
