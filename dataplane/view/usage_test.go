package view

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// use stores n usage reports of a job, in an entry with an event.
func (h *shard) use(id job.ID, n int, row func(i int) *state.Usage) {
	h.t.Helper()
	h.change(id, func(tx *state.Tx, j *job.Job) {
		for i := range n {
			u := row(i)
			sum, err := j.Usage.Add(&job.Usage{InputTokens: u.Report.InputTokens, CostNanoUsd: u.Report.CostNanoUsd, Model: u.Report.Model})
			must(h.t, err)
			u.First = j.Usage == nil
			j.Usage = sum
			must(h.t, tx.AddUsage(j, u))
		}
	}, evRenewed)
}

// reported returns a usage report of a model, with a cost that the worker reported.
func reported(model string, nano int64) *state.Usage {
	return &state.Usage{Phase: state.UsagePhase_USAGE_PHASE_ACK, Report: &job.Usage{Model: model, InputTokens: 5, CostNanoUsd: nano, CostReported: true}}
}

// all returns the sums of all usage.
func (h *shard) all(by GroupBy, covers func(string) bool) *UsageSums {
	h.t.Helper()
	h.settle()
	sums, err := h.view.SumUsage(h.t.Context(), 0, math.MaxInt64, by, covers)
	must(h.t, err)
	return sums
}

func TestUsageRows(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	id := h.enqueue("q", 1)[0]
	h.use(id, 1, func(int) *state.Usage { return reported("m", 1_500_000_001) })
	h.use(id, 1, func(int) *state.Usage {
		return &state.Usage{Phase: state.UsagePhase_USAGE_PHASE_HEARTBEAT, Unpriced: true, Computed: true, ComputedNanoUsd: 7,
			Report: &job.Usage{OutputTokens: 3, CacheCreationTokens: 1, CacheReadTokens: 2, CostNanoUsd: 7}}
	})
	h.says("SELECT id, job_id = '"+id.String()+"', queue, phase, input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens, model, provider, cost_usd, reported_cost_usd, computed_cost_usd, unpriced FROM job_usage",
		"1|1|q|ack|5|0|0|0|m||1.500000001|1.500000001||0\n2|1|q|heartbeat|0|3|1|2|m||7e-09||7e-09|1")
	h.same()
}

// TestUsageOutlivesItsJob checks that usage outlives its job, both in a view that followed and in one that
// was built again, and disappears with the store's rows.
func TestUsageOutlivesItsJob(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 2)
	h.use(ids[0], 3, func(i int) *state.Usage { return reported("m", int64(i)) })
	h.use(ids[1], 2, func(int) *state.Usage { return reported("n", 10) })
	h.settle()
	for _, id := range ids {
		h.fetch(id, "w")
		h.ack(id, "")
		h.commit(func(tx *state.Tx) {
			j, err := tx.Job(id)
			must(t, err)
			must(t, tx.DeleteJob(j, state.EventType_EVENT_PURGED))
		})
	}
	h.says("SELECT count(*) FROM jobs", "0")
	for _, how := range []string{"it followed", "it was built again", "it was opened again"} {
		switch how {
		case "it was built again":
			must(t, h.view.Rebuild(t.Context()))
		case "it was opened again":
			h.reopen(nil)
		}
		if got := h.all(GroupBy{}, nil).Totals; got != (Sums{Reports: 5, Jobs: 2, Input: money.CountOf(25), Cost: money.TotalOf(23), Reported: money.TotalOf(23)}) {
			t.Errorf("after %s the totals are %+v", how, got)
		}
	}
	h.same()
	// An entry that only trims emits no event.
	h.commit(func(tx *state.Tx) { must(t, tx.TrimUsage(4)) })
	h.says("SELECT min(id), count(*) FROM job_usage", "4|2")
	h.same()
	h.commit(func(tx *state.Tx) { must(t, tx.TrimUsage(6)) })
	h.says("SELECT count(*) FROM job_usage", "0")
	h.use(h.enqueue("q", 1)[0], 1, func(int) *state.Usage { return reported("m", 1) })
	h.says("SELECT id FROM job_usage", "6")
	h.same()
}

func TestUsageIsGrouped(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	var ids []job.ID
	h.commit(func(tx *state.Tx) {
		for i, queue := range []string{"p", "q", "q"} {
			tx.EnsureQueue(queue)
			j := h.newJob(tx, queue)
			if i < 2 {
				j.Tags = []*job.Pair{{Name: `odd "name`, Value: fmt.Sprint("v", i)}, {Name: "z", Value: "z"}}
			}
			must(t, tx.PutBlob(j, job.Payload, payload(`{}`)))
			must(t, tx.CreateJob(j, evEnqueued))
			ids = append(ids, job.ID(j.Id))
		}
	})
	for i, id := range ids {
		h.use(id, i+1, func(n int) *state.Usage { return reported(fmt.Sprint("m", n), int64(100*i+n)) })
	}
	for _, c := range []struct {
		by     GroupBy
		covers func(string) bool
		want   string
		totals int64
	}{
		{GroupBy{}, nil, "", 804},
		{GroupBy{By: ByQueue}, nil, "q 804, p 0", 804},
		{GroupBy{By: ByModel}, nil, "m1 302, m0 300, m2 202", 804},
		{GroupBy{By: ByProvider}, nil, " 804", 804},
		{GroupBy{By: ByTag, Tag: `odd "name`}, nil, " 603, v1 201, v0 0", 804},
		{GroupBy{By: ByTag, Tag: "none"}, nil, " 804", 804},
		{GroupBy{By: ByModel}, func(queue string) bool { return queue == "p" }, "m0 0", 0},
	} {
		sums := h.all(c.by, c.covers)
		keys, _ := sums.Dearest(100)
		var got []string
		var sum Sums
		for _, key := range keys {
			got = append(got, fmt.Sprint(key, " ", int64(sums.Groups[key].Cost.Nano())))
			sum.Add(sums.Groups[key])
		}
		if text := strings.Join(got, ", "); text != c.want || int64(sums.Totals.Cost.Nano()) != c.totals || c.by.By != ByNothing && sum != sums.Totals {
			t.Errorf("by %+v: %s; totals %+v", c.by, text, sums.Totals)
		}
	}
	if keys, truncated := h.all(GroupBy{By: ByModel}, nil).Dearest(2); len(keys) != 2 || !truncated {
		t.Errorf("two of three groups: %v, %v", keys, truncated)
	}
}

// TestUsageOfATime checks that a period includes the usage at its start and excludes the usage at its end.
func TestUsageOfATime(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	id := h.enqueue("q", 1)[0]
	var at []int64
	for range 7 {
		h.use(id, 1, func(int) *state.Usage { return reported("m", 1) })
		at = append(at, h.store.Head().ClockNs)
	}
	h.settle()
	for from := range at {
		for to := from; to < len(at); to++ {
			sums, err := h.view.SumUsage(t.Context(), at[from], at[to], GroupBy{}, nil)
			must(t, err)
			if sums.Totals.Reports != int64(to-from) || (sums.Totals.Jobs == 1) != (from == 0 && to > 0) {
				t.Errorf("from %d to %d: %+v", from, to, sums.Totals)
			}
		}
	}
}

// TestUsageSumsAreWide checks that sums are exact however large they are. Reports that are set aside are in
// none of them, and in a table of their own.
func TestUsageSumsAreWide(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	ids := h.enqueue("q", 4)
	for _, id := range ids[:3] {
		h.use(id, 1, func(int) *state.Usage { return reported("m", math.MaxInt64-1) })
	}
	aside := reported("m", math.MaxInt64)
	aside.Report.InputTokens, aside.Report.Rejected = -5, job.RejectedCost
	h.change(ids[3], func(tx *state.Tx, j *job.Job) { must(t, tx.AddUsage(j, aside)) })
	h.settle()
	for _, by := range []GroupColumn{ByNothing, ByModel} {
		sums := h.all(GroupBy{By: by}, nil)
		got := sums.Totals
		if cost := got.Cost.String(); cost != "27670116110.564327418" {
			t.Errorf("the cost is %s", cost)
		}
		if got.Reported != got.Cost {
			t.Errorf("the reported cost is %s, the cost %s", got.Reported, got.Cost)
		}
		if got.Input != money.CountOf(15) {
			t.Errorf("%s input tokens, want 15", got.Input)
		}
		if counts := [...]int64{got.Reports, got.Jobs, got.Rejected}; counts != [...]int64{3, 3, 1} {
			t.Errorf("reports, jobs and rejected reports are %d, want 3, 3 and 1", counts)
		}
		if by == ByModel && *sums.Groups["m"] != sums.Totals {
			t.Errorf("the group is %+v", sums.Groups["m"])
		}
	}
	h.says("SELECT count(*), max(id) FROM job_usage", "3|3")
	h.says("SELECT id, reason, input_tokens, reported_cost_usd > 9e9 FROM rejected_usage", "4|cost_over_limit|-5|1")
	h.same()
}

// TestUsageWithoutJobs checks that a view leaves out the rows of RecordUsage, both if it followed and if it was built
// again, and shows the reports after them.
func TestUsageWithoutJobs(t *testing.T) {
	t.Parallel()
	h := newShard(t)
	h.commit(func(tx *state.Tx) { must(t, tx.RecordMeters(nil, 0)) })
	id := h.enqueue("q", 1)[0]
	for range 2 {
		h.commit(func(tx *state.Tx) { must(t, tx.RecordMeters([]string{"q"}, 0)) })
		h.use(id, 1, func(int) *state.Usage { return reported("m", 1) })
		h.settle()
	}
	h.says("SELECT id FROM job_usage", "2\n3")
	h.same()
}
