package server_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// declared declares a budget and waits until every shard has it.
func (n *node) declared(body string) {
	n.t.Helper()
	n.do("POST", "/api/v1/budgets", body, http.StatusCreated, nil)
	const kind = state.ResourceKind_RESOURCE_KIND_BUDGET
	want := len(n.shards().Home().State().ResourceIndex().Resources(kind))
	for shard := range n.shards().Count() {
		c := n.shards().Of(onShard(shard, n.shards().Count(), 0))
		eventually(n.t, "the budget is on every shard", func() bool { return len(c.State().ResourceIndex().Resources(kind)) == want })
	}
}

// costly enqueues a job with an expected cost in cents.
func (n *node) costly(queue string, cents int, more string) string {
	n.t.Helper()
	var made api.EnqueueResponse
	n.do("POST", "/api/v1/enqueue", fmt.Sprintf(`{"queue":%q,"cost_estimate_usd":%s%s}`, queue, money.Nano(int64(cents)*10_000_000), more), 201, &made)
	return made.JobID
}

func (n *node) state(id string) string {
	n.t.Helper()
	var j api.Job
	n.do("GET", "/api/v1/jobs/"+id+"?consistency=strong", "", 200, &j)
	return j.State
}

func (n *node) budget(path string) (b api.Budget) {
	n.t.Helper()
	n.do("GET", "/api/v1/budgets/"+path, "", 200, &b)
	return b
}

// A budget of a queue, or per job, belongs to one shard even if there are several.
func TestBudgetsOfOneShard(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	n.declared(`{"scope":"job","target":"default","per_job_usd":1}`)
	for _, queue := range queueOn(2) {
		n.declared(fmt.Sprintf(`{"scope":"queue","target":%q,"daily_usd":1,"default_reserve_usd":0.25}`, queue))
		n.enqueue(queue)
		n.poll(quoted([]string{queue}))
		if b := n.budget("queue/" + queue); b.ReservedUSD != 250_000_000 {
			t.Errorf("of %s %s is reserved", queue, b.ReservedUSD)
		}
	}
}

// The jobs of all shards share one limit, exact to the cent.
func TestABudgetOverShardsHolds(t *testing.T) {
	t.Parallel()
	n := startShards(t, 4, nil)
	n.declared(`{"scope":"namespace","target":"default","daily_usd":1,"default_reserve_usd":0.01,"alerts":[50]}`)
	queues := queueOn(4)
	var running []api.FetchedJob
	for _, q := range queues {
		n.costly(q, 25, "")
		running = append(running, n.poll(quoted([]string{q})))
	}
	if b := n.budget("namespace/default"); b.ReservedUSD != money.Dollar || b.Windows[0].AvailableUSD != 0 {
		t.Errorf("with 4 jobs of 0.25 %+v", b)
	}
	var late []string
	for _, q := range queues {
		id := n.enqueue(q)
		n.do("POST", "/api/v1/fetch", fmt.Sprintf(`{"queues":[%q],"timeout":0}`, q), 204, nil)
		eventually(t, "the job is held", func() bool { return n.state(id) == "held" })
		late = append(late, id)
	}
	n.do("POST", "/api/v1/jobs/"+late[3]+"/approve", "", http.StatusTooManyRequests, nil)

	// The spent money is reported, and the unspent money returns.
	for _, j := range running {
		n.do("POST", "/api/v1/ack/"+j.JobID, `{"usage":{"cost_usd":0.3}}`, 200, nil)
	}
	eventually(t, "all has been told", func() bool {
		b := n.budget("namespace/default")
		w := b.Windows[0]
		return b.ReservedUSD == 0 && w.SettledUSD == money.Dollar && w.OverrunUSD == 200_000_000 && w.AvailableUSD == -200_000_000
	})
	n.do("POST", "/api/v1/budgets/namespace/default/raise", `{"amount_usd":1,"for":"1h"}`, 200, nil)
	for i, id := range late {
		eventually(t, "the shard has heard of the raise", func() bool { return n.send("POST", "/api/v1/jobs/"+id+"/approve", "", "").status == 200 })
		if j := n.poll(quoted(queues[i : i+1])); j.JobID != id {
			t.Errorf("fetched %+v", j)
		}
	}
	n.do("DELETE", "/api/v1/budgets/namespace/default", "", 200, nil)
	for _, id := range late {
		n.do("POST", "/api/v1/ack/"+id, `{"usage":{"cost_usd":5}}`, 200, nil)
	}
}

// Money that one shard holds and does not use goes to another shard that needs it.
func TestASliceIsRecalled(t *testing.T) {
	t.Parallel()
	n := startShards(t, 4, nil)
	n.declared(`{"scope":"tag","target":"team=a","daily_usd":1,"default_reserve_usd":0.01,"on_exceed":"throttle"}`)
	n.declared(`{"scope":"key","target":"k","daily_usd":1,"default_reserve_usd":0.01,"on_exceed":"throttle"}`)
	const whose = `,"tags":{"team":"a"},"fairness_key":"k"`
	queues := queueOn(4)
	for _, q := range queues {
		n.costly(q, 1, whose)
		j := n.poll(quoted([]string{q}))
		n.do("POST", "/api/v1/ack/"+j.JobID, `{"usage":{"cost_usd":0.01}}`, 200, nil)
	}
	if b := n.budget("tag/team=a"); b.ReservedUSD == 0 {
		t.Errorf("no shard has kept a slice: %+v", b)
	}
	id := n.costly(queues[2], 96, whose)
	if j := n.poll(quoted(queues)); j.JobID != id {
		t.Errorf("fetched %+v", j)
	}
	// No money is left. A throttled job waits, and runs when there is some.
	waits := n.costly(queues[3], 50, whose)
	var polling sync.WaitGroup
	polling.Go(func() {
		if j := n.poll(quoted(queues)); j.JobID != waits {
			t.Errorf("fetched %+v", j)
		}
	})
	eventually(t, "the job waits at its gate", func() bool {
		var why api.Why
		n.do("GET", "/api/v1/jobs/"+waits+"/why", "", 200, &why)
		return why.Position != nil && why.Position.Gate == "tag/team=a"
	})
	n.do("POST", "/api/v1/ack/"+id, `{"usage":{"cost_usd":0.2}}`, 200, nil)
	polling.Wait()
}

// With many concurrent callers no more than the limit is spent, and the account equals the reported cost.
func TestManyCallersOverShards(t *testing.T) {
	t.Parallel()
	n := startShards(t, 4, nil)
	n.declared(`{"scope":"namespace","target":"default","daily_usd":1,"default_reserve_usd":0.01}`)
	queues := queueOn(4)
	const jobs, callers = 160, 16
	for i := range jobs {
		n.enqueue(queues[i%len(queues)])
	}
	var reported, ran atomic.Int64
	var done atomic.Bool
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := 0; !done.Load(); i++ {
				var got api.FetchBatchResponse
				n.do("POST", "/api/v1/fetch/batch", fmt.Sprintf(`{"queues":%s,"worker_id":"w%d","count":2,"timeout":0}`, quoted(queues), caller), 200, &got)
				for _, j := range got.Jobs {
					ran.Add(1)
					cost := money.Nano(1_000_000 * int64(1+(caller+i)%10)) // at most the reserve
					reported.Add(int64(cost))
					n.do("POST", "/api/v1/ack/"+j.JobID, fmt.Sprintf(`{"lease_token":%q,"usage":{"cost_usd":%s}}`, j.LeaseToken, cost), 200, nil)
				}
			}
		})
	}
	eventually(t, "every job has run or is held", func() bool { return n.unsettled(queues) == 0 })
	done.Store(true)
	all.Wait()
	eventually(t, "all has been told", func() bool {
		b := n.budget("namespace/default")
		return b.ReservedUSD == 0 && int64(b.Windows[0].SettledUSD) == reported.Load()
	})
	if w := n.budget("namespace/default").Windows[0]; w.OverrunUSD != 0 || w.SettledUSD > money.Dollar || ran.Load() < 99 {
		t.Errorf("%d jobs ran, the account says %+v", ran.Load(), w)
	}
}

// unsettled returns the number of jobs of queues that run or wait.
func (n *node) unsettled(queues []string) (jobs uint64) {
	n.t.Helper()
	for _, queue := range queues {
		v := n.shards().Of(queue).State().Snapshot()
		q, err := v.Queue(queue)
		if err != nil {
			n.t.Fatal(err)
		}
		jobs += q.InState[job.Pending] + q.InState[job.Active]
		if err := v.Close(); err != nil {
			n.t.Fatal(err)
		}
	}
	return jobs
}
