package op_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

func init() {
	bounds = append(bounds, []struct {
		op, field string
		at        int
		beyond    api.Code
		set       func(o op.Op, n int)
	}{
		{"start-bulk", "job_ids", job.MaxBulkIDs, api.ValidationError, func(o op.Op, n int) {
			o.(*op.StartBulk).Shares[0].JobIds = ids(n, 16)
		}},
		{"start-bulk", "filter", job.MaxBulkFilter, api.PayloadTooLarge, func(o op.Op, n int) {
			o.(*op.StartBulk).Filter, o.(*op.StartBulk).Shares[0].JobIds = []byte(long(n)), nil
		}},
		{"start-bulk", "scope", job.MaxKeyScope, api.ValidationError, func(o op.Op, n int) {
			o.(*op.StartBulk).Scope = strings.Split(strings.Repeat("x,", n-1)+"x", ",")
		}},
		{"start-bulk", "shares", job.Slots, api.ValidationError, func(o op.Op, n int) {
			b := o.(*op.StartBulk)
			b.Filter, b.Shares = []byte("{}"), nil
			for i := range n {
				b.Shares = append(b.Shares, &op.BulkStart{Shard: uint32(min(i, job.Slots-1))})
			}
		}},
		{"open-bulk", "work.job_ids", job.MaxBulkIDs, api.ValidationError, func(o op.Op, n int) {
			b := o.(*op.OpenBulk)
			b.Part.Named, b.Work = true, &state.BulkWork{JobIds: ids(n, 16)}
		}},
		{"run-bulk", "job_ids", job.MaxDutyItems, api.ValidationError, func(o op.Op, n int) {
			o.(*op.RunBulk).JobIds, o.(*op.RunBulk).After = ids(n, 16), make([]uint64, n)
		}},
		{"run-bulk", "failure", job.MaxErrorText, api.ValidationError, func(o op.Op, n int) {
			o.(*op.RunBulk).Failure = long(n)
		}},
		{"count-bulk", "failures", job.MaxBulkFailures, api.ValidationError, func(o op.Op, n int) {
			for _, id := range ids(n, 16) {
				o.(*op.CountBulk).Failures = append(o.(*op.CountBulk).Failures, &state.BulkFailure{JobId: id})
			}
		}},
		{"purge-bulks", "bulk_ids", job.MaxDutyItems, api.ValidationError, func(o op.Op, n int) {
			o.(*op.PurgeBulks).BulkIds = ids(n, 16)
		}},
	}...)
}

// inEach creates a job in each state.
func (w *world) inEach() map[job.State]job.ID {
	w.t.Helper()
	made := map[job.State]job.ID{}
	add := func(s job.State, set func(*op.NewJob)) job.ID {
		o := w.newJobs("q-"+s.Word(), 1)
		if set != nil {
			set(o.Jobs[0])
		}
		w.apply(o)
		made[s] = job.ID(o.Meta.Ids[0])
		return made[s]
	}
	named := func(id job.ID) [][]byte { return [][]byte{id[:]} }
	start := func(s job.State) *op.Leased { return one[*op.FetchResult](w, w.fetch("q-"+s.Word(), 1)).Jobs[0] }
	failing := func(s job.State) {
		l := start(s)
		w.apply(&op.Fail{Items: []*op.FailItem{{Proof: &op.LeaseProof{Id: l.Id, Token: l.LeaseToken}, Error: "x"}}})
	}
	add(job.Pending, nil)
	add(job.Scheduled, func(n *op.NewJob) { n.ScheduledNs = w.clockNs + int64(time.Hour) })
	add(job.Active, nil)
	start(job.Active)
	add(job.Retrying, nil)
	failing(job.Retrying)
	w.apply(&op.HoldJobs{JobIds: named(add(job.Held, nil))})
	add(job.Completed, nil)
	w.apply(ack(start(job.Completed)))
	add(job.Dead, func(n *op.NewJob) { n.Retry.MaxAttempts = 1 })
	failing(job.Dead)
	w.apply(&op.CancelJobs{JobIds: named(add(job.Cancelled, nil))})
	return made
}

// Every action is tried on a job in every state.
func TestBulkActions(t *testing.T) {
	t.Parallel()
	const golden = "testdata/bulk-actions.golden"
	var b strings.Builder
	for a := state.BulkAction_BULK_ACTION_RETRY; a.Word() != ""; a++ {
		w := newWorld(t)
		made := w.inEach()
		for s := job.State_STATE_UNSPECIFIED + 1; s < job.States; s++ {
			id := made[s]
			o := w.bulk(a, id)
			if a == state.BulkAction_BULK_ACTION_CHANGE_PRIORITY {
				o.Priority = job.High
			}
			w.apply(o)
			w.apply(&op.RunBulk{BulkId: o.Meta.Ids[0], JobIds: [][]byte{id[:]}, After: []uint64{1}, To: 1})
			record, err := w.store.Bulk([16]byte(o.Meta.Ids[0]))
			if err != nil {
				t.Fatal(err)
			}
			what := "gone"
			if j, err := w.store.Job(id); err != nil {
				t.Fatal(err)
			} else if j != nil {
				what = fmt.Sprintf("%s in %s, priority %d", j.State.Word(), j.Queue, j.Priority)
				if j.Cancelling {
					what += ", cancelling"
				}
			}
			if len(record.Failures) > 0 {
				what = record.Failures[0].Code
			}
			if n := record.Counts().Processed(); n != 1 || record.FinishedNs == 0 {
				t.Errorf("%s of a %s job counts %d", a.Word(), s.Word(), n)
			}
			fmt.Fprintf(&b, "%-15s %-9s -> %s\n", a.Word(), s.Word(), what)
		}
		w.check()
	}
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("actions do something else than %s says:\n%s", golden, difference(string(want), b.String()))
	}
}

// run does the rest of an operation on named jobs in chunks. It proposes each chunk twice, with a chunk
// between them that another leader has built from an earlier view.
func (w *world) run(o *op.StartBulk, chunk int) *state.Bulk {
	w.t.Helper()
	named := o.Shares[0].JobIds
	var stale *op.RunBulk
	for from := 0; from < len(named); from += chunk {
		to := min(from+chunk, len(named))
		run := &op.RunBulk{BulkId: o.Meta.Ids[0], From: uint64(from), JobIds: named[from:to], To: uint64(to)}
		for i := range run.JobIds {
			run.After = append(run.After, uint64(from+i+1))
		}
		if w.apply(run, run); stale != nil {
			w.apply(stale)
		}
		stale = run
		if from%3 == 0 {
			w.restart()
		}
	}
	b, err := w.store.Bulk([16]byte(o.Meta.Ids[0]))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// Chunks that come twice, or late, or after a restart, count once.
func TestBulkCountsAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.newJobs("q", 20)
	w.apply(made)
	w.apply(&op.HoldJobs{JobIds: made.Meta.Ids[:6]})
	var named []job.ID
	for _, id := range made.Meta.Ids {
		named = append(named, job.ID(id))
	}
	o := w.bulk(state.BulkAction_BULK_ACTION_DELETE, named...)
	held := w.bulk(state.BulkAction_BULK_ACTION_APPROVE, named...)
	w.apply(held, o)
	b := w.run(held, 4)
	if c := b.Counts(); c.Affected != 6 || c.Errors != 14 {
		t.Errorf("approve: %+v", c)
	}
	if len(b.Failures) != 14 || b.FinishedNs == 0 {
		t.Errorf("approve: %d failures, finished at %d", len(b.Failures), b.FinishedNs)
	}
	if b := w.run(o, 3); b.Counts().Affected != 20 || b.Counts().Errors != 0 || b.FinishedNs == 0 {
		t.Errorf("delete: %v", b)
	}
	w.check()
	w.checkReplica()
}

// All errors are counted. Above the bound only their number is reported.
func TestBulkFailuresAreBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{job.MaxBulkFailures, job.MaxBulkFailures + 1} {
		w := newWorld(t)
		var named []job.ID
		for range n {
			named = append(named, w.newID("q"))
		}
		o := w.bulk(state.BulkAction_BULK_ACTION_RETRY, named...)
		w.apply(o)
		b := w.run(o, 400)
		if b.Counts().Errors != uint64(n) || len(b.Failures) != min(n, job.MaxBulkFailures) {
			t.Errorf("%d failures: %d counted, %d kept", n, b.Counts().Errors, len(b.Failures))
		}
	}
}

// The number of kept operations is limited, and no operation begins before there is room.
func TestBulksAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nobody := w.newID("q")
	var first [][]byte
	for range job.MaxBulks {
		o := w.bulk(state.BulkAction_BULK_ACTION_RETRY, nobody)
		w.apply(o)
		first = append(first, o.Meta.Ids[0])
	}
	o := w.bulk(state.BulkAction_BULK_ACTION_RETRY, nobody)
	if err, _ := w.apply(o)[0].(error); api.CodeOf(err) != api.Overloaded {
		t.Fatalf("one more than the bound: %v", err)
	}
	if r := one[*op.PurgeBulksResult](w, &op.PurgeBulks{BulkIds: first}); r.Purged != 0 {
		t.Errorf("%d were forgotten that are under way", r.Purged)
	}
	for _, id := range first[:3] {
		w.apply(&op.CancelBulk{BulkId: id})
	}
	if r := one[*op.PurgeBulksResult](w, &op.PurgeBulks{BulkIds: first}); r.Purged != 3 {
		t.Errorf("%d were forgotten to make room, 3 have ended", r.Purged)
	}
	one[*op.StartBulkResult](w, o)
	w.check()
}

// A full entry ends a chunk early, and the next chunk does the rest.
func TestBulkStopsWhereAnEntryIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var named []job.ID
	for range 3 {
		o := w.newJobs("q", 1)
		w.apply(o)
		named = append(named, job.ID(o.Meta.Ids[0]))
	}
	o := w.bulk(state.BulkAction_BULK_ACTION_CANCEL, named...)
	w.apply(o)
	fill := func() (ops []op.Op) {
		for range state.MaxEntryDocuments / job.MaxPayload {
			large := w.newJobs("other", 1)
			large.Jobs[0].Payload.Data = make([]byte, job.MaxPayload)
			ops = append(ops, large)
		}
		return ops
	}
	run := &op.RunBulk{BulkId: o.Meta.Ids[0], JobIds: o.Shares[0].JobIds, After: []uint64{1, 2, 3}, To: 3}
	results := w.apply(append(fill(), run)...)
	if r := results[len(results)-1].(*op.RunBulkResult); !r.Applied || !r.Waits {
		t.Fatalf("in a full entry: %v", r)
	}
	if r := one[*op.RunBulkResult](w, run); !r.Applied || r.Waits {
		t.Fatalf("then: %v", r)
	}
	if b, err := w.store.Bulk([16]byte(o.Meta.Ids[0])); err != nil || b.Counts().Affected != 3 {
		t.Errorf("%v: %v", b, err)
	}
}
