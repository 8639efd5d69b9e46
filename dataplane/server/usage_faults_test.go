package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/api/workerpb"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
)

// usageFaults are usage reports, most with values out of range, and the reason why each is rejected; empty if
// it counts.
var usageFaults = []struct{ usage, want string }{
	{`{"input_tokens":1,"cost_usd":0.30000000000000004}`, ""},
	{`{"input_tokens":1000.0,"output_tokens":1e3,"cost_usd":1e-12}`, ""},
	{`{"cost_usd":1000000}`, ""},
	{`{"cost_usd":1000000.000000001}`, job.RejectedCost},
	{`{"cost_usd":9223372036.854775807}`, job.RejectedCost},
	{`{"cost_usd":1e300}`, job.RejectedCost},
	{`{"input_tokens":1000000000000,"cost_usd":1}`, ""},
	{`{"input_tokens":1000000000000,"output_tokens":1,"cost_usd":1}`, job.RejectedTokens},
	{`{"input_tokens":9223372036854775807}`, job.RejectedTokens},
	{`{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807,"model":"nobody's"}`, job.RejectedTokens},
	{`{"cache_read_tokens":1e30}`, job.RejectedTokens},
	{`{"output_tokens":1000000000000,"model":"nobody's"}`, job.RejectedCost}, // at the highest price
	{`{"input_tokens":-1}`, job.RejectedNegative},
	{`{"cost_usd":-0.5}`, job.RejectedNegative},
	{`{"cost_usd":1,"model":"` + strings.Repeat("m", job.MaxUsageWord+1) + `"}`, job.RejectedName},
	{`{"cost_usd":1,"provider":"` + strings.Repeat("p", job.MaxUsageWord+1) + `"}`, job.RejectedName},
}

// taken enqueues and fetches a job of the queue.
func (n *node) taken(queue string) api.FetchedJob {
	n.t.Helper()
	answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"`+queue+`"}`)
	return answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["`+queue+`"]}`)
}

// No usage report refuses the work with which it came: the ack, fail or heartbeat is done. Values that cannot
// count are stored apart and are in no sum, and the answer, an event, the view and a count in the summary
// show them.
func TestUsageNeverRefusesWork(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	n.seeded()
	rejected := 0
	for i, c := range usageFaults {
		queue := fmt.Sprint("q", i)
		body := func(j api.FetchedJob) string { return `{"lease_token":"` + j.LeaseToken + `","usage":` + c.usage + `}` }

		j := n.taken(queue)
		if got := answers[api.AckResponse](n, 200, "POST", "/ack/"+j.JobID, body(j)); got.Status != "ok" || got.UsageRejected != c.want {
			t.Errorf("ack with %s: %+v, want %q", c.usage, got, c.want)
		}
		if got := answers[api.Job](n, 200, "GET", "/jobs/"+j.JobID, ""); got.State != "completed" || c.want != "" && (got.CostUSD != 0 || got.Usage != nil) {
			t.Errorf("after an ack with %s the job is %s and cost %s", c.usage, got.State, got.CostUSD)
		}
		j = n.taken(queue)
		batch := answers[api.AckBatchResponse](n, 200, "POST", "/ack/batch", `{"acks":[{"job_id":"`+j.JobID+`",`+body(j)[1:]+`]}`)
		equal(t, "batch with "+c.usage+": acked", batch.Acked, 1)
		equal(t, "batch with "+c.usage+": errors", len(batch.Errors), 0)
		var refused []api.UsageRejection
		if c.want != "" {
			refused = []api.UsageRejection{{JobID: j.JobID, Reason: c.want}}
		}
		equal(t, "batch with "+c.usage+": usage_rejected", batch.UsageRejected, refused)
		j = n.taken(queue)
		beat := answers[api.HeartbeatResponse](n, 200, "POST", "/heartbeat", `{"jobs":{"`+j.JobID+`":`+body(j)+`}}`)
		if got := beat.Jobs[j.JobID]; got.Status != "ok" || got.UsageRejected != c.want {
			t.Errorf("heartbeat with %s: %+v", c.usage, got)
		}
		if got := answers[api.FailResponse](n, 200, "POST", "/fail/"+j.JobID, body(j)); got.Attempt != 1 || got.UsageRejected != c.want {
			t.Errorf("fail with %s: %+v", c.usage, got)
		}
		if c.want != "" {
			rejected += 4
		}
	}
	n.asideIs(t, int64(rejected), int64(4*len(usageFaults)-rejected))
	// A declaration is strict; an estimate is lenient like a report.
	n.do("PUT", "/api/v1/budgets/queue/q0", `{"daily_usd":0.30000000000000004}`, http.StatusBadRequest, nil)
	n.do("POST", "/api/v1/enqueue", `{"queue":"other","cost_estimate_usd":0.30000000000000004}`, http.StatusCreated, nil)
}

// asideIs checks the summary, the view's table, the events and the metric.
func (n *node) asideIs(t *testing.T, rejected, counted int64) {
	t.Helper()
	eventually(t, "the reports in the summary", func() bool {
		got := answers[api.UsageSummary](n, 200, "GET", "/usage/summary?group_by=queue", "")
		return got.Totals.RejectedReports == rejected && got.Totals.Reports == counted
	})
	events := answers[api.EventPage](n, 200, "GET", "/cluster/events?types=usage_rejected&limit=1000", "")
	if len(events.Events) != int(rejected) || !strings.Contains(string(events.Events[0].Data), `"reason":"`) {
		t.Errorf("%d events tell of %d rejected reports: %+v", len(events.Events), rejected, events.Events[:min(1, len(events.Events))])
	}
	if got := n.figures()[`corvo_usage_reports_rejected_total{shard="0"}`]; got != float64(rejected) {
		t.Errorf("the metrics count %v rejected reports, want %d", got, rejected)
	}
}

// The RPC's answers show the rejection too: of a double that is not a decimal, of one out of range, and of an
// exact text.
func TestUsageNeverRefusesWorkByRPC(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	client := rpcClient(t, h2c(t), n.rpcFront(), n.admin)
	x, y := 0.1, 0.2
	for _, c := range []struct {
		usage *workerpb.UsageReport
		want  string
	}{
		{&workerpb.UsageReport{CostUsd: x + y}, ""},
		{&workerpb.UsageReport{CostUsdExact: "0.30000000000000004"}, ""},
		{&workerpb.UsageReport{CostUsd: 1e300}, job.RejectedCost},
		{&workerpb.UsageReport{CostUsd: -1}, job.RejectedNegative},
		{&workerpb.UsageReport{InputTokens: -1}, job.RejectedNegative},
	} {
		j := n.taken("q")
		ack, err := client.Ack(t.Context(), connect.NewRequest(&workerpb.AckRequest{JobId: j.JobID, LeaseToken: j.LeaseToken, Usage: c.usage}))
		if err != nil || ack.Msg.UsageRejected != c.want {
			t.Errorf("ack with %v: %v, %v", c.usage, ack, err)
		}
		j = n.taken("q")
		batch, err := client.AckBatch(t.Context(), connect.NewRequest(&workerpb.AckBatchRequest{Items: []*workerpb.AckBatchItem{{JobId: j.JobID, LeaseToken: j.LeaseToken, Usage: c.usage}}}))
		if err != nil || batch.Msg.Acked != 1 || (c.want == "") != (len(batch.Msg.UsageRejected) == 0) {
			t.Errorf("batch with %v: %v, %v", c.usage, batch, err)
		}
	}
}

// The sum of ten thousand maximum reports exceeds 64 bits, for a job, a shard and a summary; each report
// counts.
func TestUsageSumsAreWide(t *testing.T) {
	t.Parallel()
	n := startShards(t, 1, nil)
	const many = 10_000
	for range many / 1000 {
		jobs, acks := make([]string, 1000), make([]string, 0, 1000)
		for i := range jobs {
			jobs[i] = `{"queue":"q"}`
		}
		answers[api.EnqueueBatchResponse](n, 201, "POST", "/enqueue/batch", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
		for len(acks) < 1000 {
			got := answers[api.FetchBatchResponse](n, 200, "POST", "/fetch/batch", `{"queues":["q"],"count":500}`)
			for _, j := range got.Jobs {
				acks = append(acks, fmt.Sprintf(`{"job_id":%q,"lease_token":%q,"usage":{"cost_usd":1000000}}`, j.JobID, j.LeaseToken))
			}
		}
		if got := answers[api.AckBatchResponse](n, 200, "POST", "/ack/batch", `{"acks":[`+strings.Join(acks, ",")+`]}`); got.Acked != 1000 || len(got.UsageRejected) != 0 {
			t.Fatalf("%d of 1000 are acked, %d reports rejected", got.Acked, len(got.UsageRejected))
		}
	}
	eventually(t, "the sum", func() bool {
		got, err := n.client(n.admin).UsageSummary(t.Context(), client.SummaryQuery{GroupBy: "queue"}, client.Read{})
		if err != nil && api.CodeOf(err) != api.Overloaded { // the view of a busy machine
			t.Fatal(err)
		}
		return err == nil && got.Totals.Reports == many && got.Totals.CostUSD.String() == fmt.Sprint(many*int64(billing.MaxReportCost/money.Dollar))
	})
}
