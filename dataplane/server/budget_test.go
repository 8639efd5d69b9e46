package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
)

func TestABudgetsLife(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	var b api.Budget
	a := n.do("POST", "/api/v1/budgets", `{"scope":"queue","target":"q","daily_usd":10,"weekly_usd":20.5,"monthly_usd":30,"rolling_usd":0.000000001,"rolling_window":"1h",
		"per_job_usd":5,"timezone":"Europe/Berlin","on_exceed":"reject","default_reserve_usd":0.000000001,"alerts":[50,80]}`, http.StatusCreated, &b)
	equal(t, "ETag", a.header.Get("ETag"), `"1"`)
	equal(t, "windows", len(b.Windows), 4)
	wantFields(t, "the created budget", b, func(want *api.Budget) {
		want.Scope, want.Target, want.Timezone, want.OnExceed = "queue", "q", "Europe/Berlin", "reject"
		want.DailyUSD, want.WeeklyUSD, want.RollingUSD, want.RollingWindow = ptr(10*money.Dollar), ptr(money.Nano(20_500_000_000)), ptr(money.Nano(1)), ptr(api.Duration("1h0m0s"))
		want.PerJobUSD, want.DefaultReserveUSD, want.Alerts, want.RaiseUntil = ptr(5*money.Dollar), 1, []uint32{50, 80}, nil
	})
	for i, word := range []string{"daily", "weekly", "monthly", "rolling"} {
		w := b.Windows[i]
		start, _, err := w.Start.Parse()
		end, _, endErr := w.End.Parse()
		if err := errors.Join(err, endErr); err != nil {
			t.Fatal(err)
		}
		equal(t, "window", w.Window, word)
		equal(t, "the available money of the window "+word, w.AvailableUSD, w.LimitUSD)
		if !start.Before(end) {
			t.Errorf("the window %s starts at %s and ends at %s", word, w.Start, w.End)
		}
	}
	const path = "/api/v1/budgets/queue/q"
	list := n.do("GET", "/api/v1/budgets", "", 200, nil)
	if !strings.HasPrefix(string(list.body), `[{"scope":"queue","target":"q","daily_usd":10,`) {
		t.Errorf("listed %s", list.body)
	}
	n.do("POST", "/api/v1/budgets", `{"scope":"queue","target":"q","daily_usd":10,"default_reserve_usd":1}`, http.StatusConflict, nil)

	// A raise is added to every limit; a PUT keeps the raise and removes the limits that it omits.
	n.do("POST", path+"/raise", `{"amount_usd":2.5,"for":"1h"}`, 200, &b)
	equal(t, "raise_usd", b.RaiseUSD, 2_500_000_000)
	present(t, "raise_until", b.RaiseUntil)
	equal(t, "the available money of the day", b.Windows[0].AvailableUSD, 12_500_000_000)
	equal(t, "the limit of the day", b.Windows[0].LimitUSD, 10*money.Dollar)
	b = api.Budget{}
	a = n.do("PUT", path, `{"monthly_usd":30,"default_reserve_usd":1}`, 200, &b, `If-Match: "2"`)
	equal(t, "ETag", a.header.Get("ETag"), `"3"`)
	equal(t, "windows", len(b.Windows), 1)
	present(t, "raise_usd", b.RaiseUSD)
	wantFields(t, "the replaced budget", b, func(want *api.Budget) {
		want.DailyUSD, want.MonthlyUSD, want.OnExceed, want.Timezone = nil, ptr(30*money.Dollar), "hold", "UTC"
	})
	n.do("POST", path+"/raise", `{"amount_usd":1,"until":"9999-12-31T00:00:00Z"}`, 200, &b) // cut to what nanoseconds can hold
	equal(t, "raise_until", *b.RaiseUntil, "2262-04-11T23:47:16.854775807Z")
	b = api.Budget{}
	if n.do("POST", path+"/raise", `{"amount_usd":0}`, 200, &b); b.RaiseUSD != 0 || b.RaiseUntil != nil {
		t.Errorf("not raised any more %+v", b)
	}
	n.do("DELETE", path, "", http.StatusPreconditionFailed, nil, `If-Match: "2"`)
	n.do("DELETE", path, "", 200, nil)
	for method, to := range map[string]string{"GET": path, "DELETE": path, "POST": path + "/raise"} {
		n.do(method, to, `{}`, http.StatusNotFound, nil)
	}
	// A PUT creates a budget whose scope and target are in its path.
	if n.do("PUT", "/api/v1/budgets/tag/team=a%2Fb", `{"daily_usd":1,"default_reserve_usd":1}`, http.StatusCreated, &b); b.Scope != "tag" || b.Target != "team=a/b" {
		t.Errorf("made %+v", b)
	}
	n.do("GET", "/api/v1/budgets/tag/team=a%2Fb", "", 200, nil)
}

func TestRefusedBudgets(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	for _, c := range []struct{ body, field string }{
		{`{"scope":"namespace","target":"default","default_reserve_usd":1}`, "daily_usd"},
		{`{"scope":"namespace","target":"default","daily_usd":0,"default_reserve_usd":1}`, "daily_usd"},
		{`{"scope":"namespace","target":"default","daily_usd":1,"default_reserve_usd":2}`, "daily_usd"},
		{`{"scope":"namespace","target":"q","daily_usd":1,"default_reserve_usd":1}`, "target"},
		{`{"scope":"team","target":"q","daily_usd":1,"default_reserve_usd":1}`, "scope"},
		{`{"scope":"job","target":"default","daily_usd":1}`, "per_job_usd"},
		{`{"scope":"queue","target":"q","rolling_usd":1,"default_reserve_usd":1}`, "rolling_window"},
		{`{"scope":"queue","target":"q","rolling_usd":1,"rolling_window":"1s","default_reserve_usd":1}`, "rolling_window"},
		{`{"scope":"queue","target":"q","daily_usd":1,"rolling_window":"1h","default_reserve_usd":1}`, "rolling_window"},
		{`{"scope":"queue","target":"q","daily_usd":1,"default_reserve_usd":1,"timezone":"Mars/Olympus"}`, "timezone"},
		{`{"scope":"queue","target":"q","daily_usd":1,"default_reserve_usd":1,"on_exceed":"explode"}`, "on_exceed"},
		{`{"scope":"queue","target":"q","daily_usd":1,"default_reserve_usd":1,"alerts":[80,50]}`, "alerts"},
	} {
		a := n.do("POST", "/api/v1/budgets", c.body, http.StatusBadRequest, nil)
		if p := a.problem(t); !strings.Contains(p.Error, c.field+" ") {
			t.Errorf("%s: %s does not name %s", c.body, a.body, c.field)
		}
	}
	n.do("POST", "/api/v1/budgets", `{"scope":"job","target":"default","per_job_usd":1}`, http.StatusCreated, nil)
	for _, body := range []string{`{}`, `{"amount_usd":null,"for":"1h"}`, `{"amount_usd":1}`, `{"amount_usd":1,"for":"1h","until":"2100-01-01T00:00:00Z"}`, `{"amount_usd":1,"until":"2000-01-01T00:00:00Z"}`, `{"amount_usd":-1,"for":"1h"}`, `{"amount_usd":1,"for":"100000h"}`} {
		n.do("POST", "/api/v1/budgets/job/default/raise", body, http.StatusBadRequest, nil)
	}
}

// A job that exceeds a budget is held, names the budget, and cannot be approved until the budget has money.
func TestABudgetHolds(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	n.do("POST", "/api/v1/budgets", `{"scope":"queue","target":"q","daily_usd":1,"default_reserve_usd":0.6}`, http.StatusCreated, nil)
	first, second := n.enqueue("q"), n.enqueue("q")
	var fetched api.FetchBatchResponse
	n.do("POST", "/api/v1/fetch/batch", `{"queues":["q"],"worker_id":"w","count":5,"timeout":0}`, 200, &fetched)
	if len(fetched.Jobs) != 1 || fetched.Jobs[0].JobID != first {
		t.Fatalf("fetched %+v", fetched)
	}
	var j api.Job
	if n.do("GET", "/api/v1/jobs/"+second+"?consistency=strong", "", 200, &j); j.State != "held" || j.HoldReason == nil || !strings.Contains(*j.HoldReason, "budget queue/q ") {
		t.Errorf("the second job is %s: %v", j.State, j.HoldReason)
	}
	a := n.do("POST", "/api/v1/jobs/"+second+"/approve", "", http.StatusTooManyRequests, nil)
	if p := a.problem(t); p.Code != api.BudgetExceeded || !strings.Contains(p.Error, "/api/v1/budgets/queue/q/raise") {
		t.Errorf("approved: %s", a.body)
	}
	// The heartbeat of the first job's worker says when the job exceeds the budget.
	beat := func(cost string) bool {
		var out api.HeartbeatResponse
		n.do("POST", "/api/v1/heartbeat", fmt.Sprintf(`{"jobs":{%q:{"usage":{"cost_usd":%s}}}}`, first, cost), 200, &out)
		return out.Jobs[first].BudgetExceeded
	}
	for i, over := range []bool{false, false, true} {
		if beat([]string{"0.5", "0.5", "0.1"}[i]) != over {
			t.Errorf("heartbeat %d says of the budget %t", i+1, !over)
		}
	}
	var b api.Budget
	n.do("POST", "/api/v1/budgets/queue/q/raise", `{"amount_usd":1,"for":"1h"}`, 200, &b)
	if b.ReservedUSD != money.Dollar || b.Windows[0].OverrunUSD != 100_000_000 || b.Windows[0].AvailableUSD != 900_000_000 {
		t.Errorf("raised %+v", b)
	}
	n.do("POST", "/api/v1/jobs/"+second+"/approve", "", 200, nil)
	if j := n.poll(`["q"]`); j.JobID != second {
		t.Errorf("fetched %+v", j)
	}
	n.do("POST", "/api/v1/ack/"+first, `{"usage":{"cost_usd":3}}`, 200, nil)
	n.do("GET", "/api/v1/budgets/queue/q", "", 200, &b)
	if w := b.Windows[0]; b.ReservedUSD != 600_000_000 || w.SettledUSD != money.Dollar || w.OverrunUSD != 3_100_000_000 {
		t.Errorf("settled %+v", b)
	}
}

// An estimate replaces the budget's reserve.
func TestACostEstimateIsReserved(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	n.do("POST", "/api/v1/budgets", `{"scope":"namespace","target":"default","daily_usd":1,"default_reserve_usd":0.5,"on_exceed":"reject"}`, http.StatusCreated, nil)
	var e api.EnqueueResponse
	n.do("POST", "/api/v1/enqueue", `{"queue":"q","cost_estimate_usd":-1}`, http.StatusBadRequest, nil)
	n.do("POST", "/api/v1/enqueue", `{"queue":"q","cost_estimate_usd":1.5}`, http.StatusCreated, &e)
	n.do("POST", "/api/v1/enqueue", `{"queue":"q","cost_estimate_usd":0.999999999}`, http.StatusCreated, nil)
	n.poll(`["q"]`)
	var b api.Budget
	if n.do("GET", "/api/v1/budgets/namespace/default", "", 200, &b); b.ReservedUSD != 999_999_999 {
		t.Errorf("reserved %s", b.ReservedUSD)
	}
	var j api.Job
	if n.do("GET", "/api/v1/jobs/"+e.JobID+"?consistency=strong", "", 200, &j); j.State != "dead" {
		t.Errorf("a job that is never to fit is %s", j.State)
	}
}

// With many concurrent callers no more than the limit is spent, and the account equals the reported cost.
func TestManyCallersDoNotOvershoot(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	n.do("POST", "/api/v1/budgets", `{"scope":"namespace","target":"default","daily_usd":1,"default_reserve_usd":0.01}`, http.StatusCreated, nil)
	const jobs, callers = 200, 64
	for range jobs {
		n.enqueue("q")
	}
	var reported, ran atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range 10 {
				var got api.FetchBatchResponse
				n.do("POST", "/api/v1/fetch/batch", fmt.Sprintf(`{"queues":["q"],"worker_id":"w%d","count":2,"timeout":0}`, caller), 200, &got)
				for _, j := range got.Jobs {
					ran.Add(1)
					cost := money.Nano(1_000_000 * int64(1+(caller+i)%10)) // at most the reserve
					reported.Add(int64(cost))
					n.do("POST", "/api/v1/ack/"+j.JobID, fmt.Sprintf(`{"lease_token":%q,"usage":{"cost_usd":%s}}`, j.LeaseToken, cost), 200, nil)
				}
			}
		})
	}
	all.Wait()
	var b api.Budget
	n.do("GET", "/api/v1/budgets/namespace/default", "", 200, &b)
	w := b.Windows[0]
	t.Logf("reported %s in %d jobs", money.Nano(reported.Load()), ran.Load())
	equal(t, "reserved_usd", b.ReservedUSD, 0)
	equal(t, "settled_usd", w.SettledUSD, money.Nano(reported.Load()))
	equal(t, "overrun_usd", w.OverrunUSD, 0)
	if w.SettledUSD > money.Dollar {
		t.Errorf("the limit of 1 dollar is overshot: %s", w.SettledUSD)
	}
	if ran.Load() < 100 { // each has reserved a hundredth at most
		t.Errorf("only %d jobs ran", ran.Load())
	}
}

// TestABudgetDerivesItsReserve checks the reserve of a budget without default_reserve_usd: 1 % of its
// smallest limit until an attempt of the queue has ended, and then the average cost of the attempts. If
// per_job_usd is declared, the reserve is the rest of it. Jobs that begin at once do not exceed the limit.
func TestABudgetDerivesItsReserve(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2} {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			n := startShards(t, shards, nil)
			reserves := func(b api.Budget, want money.Nano, from string) {
				t.Helper()
				if b.ReserveUSD != want || b.ReserveFrom != from {
					t.Errorf("budget %s/%s reserves %s (%s), want %s (%s)", b.Scope, b.Target, b.ReserveUSD, b.ReserveFrom, want, from)
				}
			}
			var b api.Budget
			n.do("PUT", "/api/v1/budgets/queue/q", `{"daily_usd":10,"weekly_usd":50}`, http.StatusCreated, &b)
			reserves(b, money.Dollar/10, api.ReserveFromFloor)
			n.do("PUT", "/api/v1/budgets/namespace/default", `{"daily_usd":100,"default_reserve_usd":0}`, http.StatusCreated, &b)
			reserves(b, money.Dollar, api.ReserveFromFloor)
			n.do("PUT", "/api/v1/budgets/job/default", `{"per_job_usd":9}`, http.StatusCreated, &b)
			reserves(b, 0, api.ReserveFromNone)

			for range 9 {
				n.enqueue("q")
			}
			first := n.poll(`["q"]`)
			n.comesTo("queue/q", func(b api.Budget) bool { return b.ReservedUSD == money.Dollar/10 })
			n.do("POST", "/api/v1/ack/"+first.JobID, `{"usage":{"cost_usd":2}}`, 200, nil)
			n.comesTo("queue/q", func(b api.Budget) bool {
				return b.ReserveUSD == 2*money.Dollar && b.ReserveFrom == api.ReserveFromEstimate
			})

			// 8 of 10 are left: four attempts of 2 begin, and no fifth.
			begun := 0
			for more := true; more; {
				a := n.send("POST", "/api/v1/fetch/batch", "", `{"queues":["q"],"worker_id":"w","count":8,"timeout":1}`)
				var fetched api.FetchBatchResponse
				if err := json.Unmarshal(a.body, &fetched); a.status == http.StatusOK && err != nil {
					t.Fatal(err)
				}
				begun += len(fetched.Jobs)
				more = len(fetched.Jobs) > 0
			}
			if begun != 4 {
				t.Errorf("%d attempts that cost 2 began with 8 left", begun)
			}

			n.do("PUT", "/api/v1/budgets/queue/q", `{"daily_usd":10,"per_job_usd":3}`, 200, &b)
			reserves(b, 3*money.Dollar, api.ReserveFromPerJob)
			n.do("PUT", "/api/v1/budgets/queue/q", `{"daily_usd":10,"per_job_usd":3,"default_reserve_usd":0.5}`, 200, &b)
			reserves(b, money.Dollar/2, api.ReserveFromDefault)
		})
	}
}

// comesTo waits until a condition on a budget holds.
func (n *node) comesTo(path string, as func(api.Budget) bool) {
	n.t.Helper()
	eventually(n.t, "the budget is as it should be", func() bool { return as(n.budget(path)) })
}
