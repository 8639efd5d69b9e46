package server_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/tenancy"
)

// seeded waits until every shard has the shipped prices.
func (n *node) seeded() {
	n.t.Helper()
	shards, err := n.server.Config().Host.Cells(tenancy.Default)
	if err != nil {
		n.t.Fatal(err)
	}
	eventually(n.t, "the shipped prices", func() bool {
		for _, c := range shards {
			if !c.State().ResourceIndex().HasPrices() {
				return false
			}
		}
		return true
	})
}

// ran enqueues, fetches and acks a job with usage.
func (n *node) ran(queue, more, usage string) string {
	n.t.Helper()
	answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"`+queue+`"`+more+`}`)
	got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["`+queue+`"]}`)
	answers[api.Status](n, 200, "POST", "/ack/"+got.JobID, `{"lease_token":"`+got.LeaseToken+`","usage":`+usage+`}`)
	return got.JobID
}

func TestUsageSummary(t *testing.T) {
	t.Parallel()
	for _, shards := range shardCounts {
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			n := startShards(t, shards, nil)
			n.seeded()
			queues := queueOn(shards)
			for i, queue := range queues {
				id := n.ran(queue, `,"tags":{"team":"red"},"model":"gpt-5-nano"`, `{"input_tokens":1000000,"output_tokens":1,"provider":"openai"}`)
				if got := answers[api.Job](n, 200, "GET", "/jobs/"+id, ""); got.CostUSD != 50_000_400 || got.Usage.Model != "gpt-5-nano" {
					t.Errorf("job %d costs %s: %+v", i, got.CostUSD, got.Usage)
				}
				n.ran(queue, ``, `{"input_tokens":1,"model":"gpt-4.1","provider":"openai","cost_usd":0.5}`)
				n.ran(queue, `,"tags":{"team":"blue"}`, `{"input_tokens":2,"model":"nobody's","cost_usd":0}`)
				n.ran(queue, ``, `{"output_tokens":1000000,"model":"nobody's"}`)
			}
			k := int64(len(queues))
			want := api.UsageSums{
				Reports: 4 * k, Jobs: 4 * k, InputTokens: money.CountOf(1_000_003 * k), OutputTokens: money.CountOf(1_000_001 * k), UnpricedReports: 2 * k,
				CostUSD:         money.TotalOf(money.Nano(k * (50_000_400 + 500_000_000 + 75_000_000_000))),
				ReportedCostUSD: money.TotalOf(money.Nano(k * 500_000_000)),
				ComputedCostUSD: money.TotalOf(money.Nano(k * (50_000_400 + 2_000 + 75_000_000_000))),
				DifferenceUSD:   money.TotalOf(money.Nano(k * (500_000_000 - 2_000))),
			}
			today := time.Now().UTC().Format(time.DateOnly)
			for by, keys := range map[string]string{
				"": "", "queue": "", "model": "nobody's gpt-4.1 gpt-5-nano", "provider": "- openai", "tag:team": "- red blue", "tag:none": "-", "day": today,
			} {
				got := answers[api.UsageSummary](n, 200, "GET", "/usage/summary?group_by="+url.QueryEscape(by), "")
				if got.Totals != want || got.Truncated || got.Period != "24h0m0s" {
					t.Errorf("by %q: %+v, want %+v", by, got, want)
				}
				var names []string
				var sum money.Total
				for _, g := range got.Groups {
					if g.Key == "" {
						g.Key = "-"
					}
					names = append(names, g.Key)
					sum = sum.Add(g.CostUSD)
				}
				if by != "" && sum != want.CostUSD || keys != "" && strings.Join(names, " ") != keys && by != "day" {
					t.Errorf("by %q: the groups %q cost %s", by, names, sum)
				}
				if by == "queue" && len(names) != len(queues) {
					t.Errorf("the queues %q", names)
				}
			}
			// No usage before.
			past := answers[api.UsageSummary](n, 200, "GET", "/usage/summary?group_by=day&timezone=Europe/Berlin&from=2020-03-28T12:00:00Z&to=2020-03-30T12:00:00Z", "")
			if past.Totals != (api.UsageSums{}) || len(past.Groups) != 0 || past.Period != "48h0m0s" {
				t.Errorf("long ago: %+v", past)
			}
		})
	}
}

func TestUsageSummaryIsScopedAndRefuses(t *testing.T) {
	t.Parallel()
	n := startNode(t, nil)
	mine := n.key(tenancy.Key{Name: "mine", Roles: []tenancy.Role{tenancy.ReadOnly}, QueueScope: []tenancy.Glob{"mine.*"}})
	for _, queue := range []string{"mine.a", "other"} {
		c := n.client(n.admin)
		if _, err := c.Enqueue(t.Context(), api.EnqueueRequest{Queue: queue}); err != nil {
			t.Fatal(err)
		}
		got := n.one(c, queue)
		if err := c.Ack(t.Context(), got.JobID, api.AckRequest{LeaseToken: got.LeaseToken, Usage: &api.ReportedUsage{CostUSD: new(money.Reported(money.Dollar))}}); err != nil {
			t.Fatal(err)
		}
	}
	a := n.send("GET", "/api/v1/usage/summary?group_by=queue", mine, "")
	equal(t, "status", a.status, 200)
	for _, part := range []string{`"groups":[{"key":"mine.a","reports":1`, `"totals":{"reports":1`} {
		if !strings.Contains(string(a.body), part) {
			t.Errorf("the summary for a key of one queue is %s, want %s in it", a.body, part)
		}
	}
	if strings.Contains(string(a.body), "other") {
		t.Errorf("the summary for a key of one queue names another queue: %s", a.body)
	}
	for query, want := range map[string]string{
		"group_by=job": "group_by", "group_by=tag:": "group_by", "period=x": "period", "period=0s": "period", "period=9601h": "period",
		"period=1h&from=2020-01-01T00:00:00Z": "period", "from=now": "from", "from=2020-01-01T00:00:00Z": "from", "to=x": "to",
		"period=abc": "period", "period=-1h": "period", "from=2020-01-01T00:00:00Z&to=x": "to", "from=2100-01-01T00:00:00Z&to=x": "to", "from=x&to=2020-01-01T00:00:00Z": "from",
		"period=abc&to=x": "period to",
		"timezone=Local":  "timezone", "timezone=Mars/Olympus": "timezone", "from=2020-01-02T00:00:00Z&to=2020-01-02T00:00:00Z": "from",
		"group_by=tag:" + strings.Repeat("t", job.MaxTagName+1): "group_by",
	} {
		if a := n.send("GET", "/api/v1/usage/summary?"+query, n.admin, ""); a.status != 400 || a.problem(t).Code != api.ValidationError || a.problem(t).fields(t) != want {
			t.Errorf("%s: %d %s, want a complaint of %s alone", query, a.status, a.body, want)
		}
	}
	for _, query := range []string{"period=9600h", "group_by=tag:" + strings.Repeat("t", job.MaxTagName)} {
		if a := n.send("GET", "/api/v1/usage/summary?"+query, n.admin, ""); a.status != 200 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	n.seeded()
	shipped := answers[[]api.Price](n, 200, "GET", "/prices", "")
	if len(shipped) < 20 {
		t.Fatalf("%d prices came with the server", len(shipped))
	}
	tiered := 0
	for _, p := range shipped {
		if p.Source != api.PriceShipped || !strings.HasPrefix(p.ID, "default:"+p.Provider+"/"+p.Model) {
			t.Errorf("%+v", p)
		}
		if p.OverInputTokens == 200_000 {
			tiered++
		}
		if got := answers[api.Price](n, 200, "GET", "/prices/"+url.PathEscape(p.ID), ""); got != p {
			t.Errorf("%+v is read as %+v", p, got)
		}
	}
	if tiered == 0 {
		t.Error("no price has a tier")
	}
	made := answers[api.Price](n, 201, "POST", "/prices", `{"model":"gpt-4.1","input_usd_per_million":1.000000001,"output_usd_per_million":0}`)
	want := api.Price{ID: made.ID, Model: "gpt-4.1", InputUSDPerMillion: 1_000_000_001, CacheCreationUSDPerMill: 1_000_000_001, CacheReadUSDPerMillion: 1_000_000_001,
		Source: api.PriceOwn, CreatedAt: made.CreatedAt}
	if made != want || !strings.HasPrefix(made.ID, "price_") {
		t.Errorf("made %+v", made)
	}
	if list := answers[[]api.Price](n, 200, "GET", "/prices", ""); len(list) != len(shipped)+1 || list[0] != made {
		t.Errorf("%d prices are listed", len(list))
	}
	// Every shard has the price, and later charges use it.
	for _, queue := range queueOn(2) {
		eventually(t, "the price to be everywhere", func() bool {
			id := n.ran(queue, "", `{"input_tokens":1000000,"model":"gpt-4.1","provider":"openai"}`)
			return answers[api.Job](n, 200, "GET", "/jobs/"+id, "").CostUSD == 1_000_000_001
		})
	}
	got := answers[api.Price](n, 200, "PUT", "/prices/"+made.ID, `{"provider":"openai","model":"gpt*","over_input_tokens":5,"input_usd_per_million":3,"output_usd_per_million":4,"cache_creation_usd_per_million":5,"cache_read_usd_per_million":6}`)
	if got != (api.Price{ID: made.ID, Provider: "openai", Model: "gpt*", OverInputTokens: 5, InputUSDPerMillion: 3 * money.Dollar, OutputUSDPerMillion: 4 * money.Dollar,
		CacheCreationUSDPerMill: 5 * money.Dollar, CacheReadUSDPerMillion: 6 * money.Dollar, Source: api.PriceOwn, CreatedAt: made.CreatedAt}) {
		t.Errorf("replaced: %+v", got)
	}
	answers[api.Status](n, 200, "DELETE", "/prices/"+made.ID, "")
	for _, c := range []struct {
		method, id, body string
		status           int
	}{
		{"GET", made.ID, "", 404}, {"DELETE", made.ID, "", 404}, {"GET", "default:nobody/none", "", 404},
		{"PUT", shipped[0].ID, `{"model":"m","input_usd_per_million":1,"output_usd_per_million":1}`, 409}, {"DELETE", shipped[0].ID, "", 409},
	} {
		if a := n.send(c.method, "/api/v1/prices/"+url.PathEscape(c.id), "", c.body); a.status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.id, a.status, a.body)
		}
	}
	for body, field := range map[string]string{
		`{"model":"m","output_usd_per_million":1}`:                                                  "input_usd_per_million",
		`{"model":"m","input_usd_per_million":1}`:                                                   "output_usd_per_million",
		`{"input_usd_per_million":1,"output_usd_per_million":1}`:                                    "model",
		`{"model":"a*b","input_usd_per_million":1,"output_usd_per_million":1}`:                      "model",
		`{"model":"m","input_usd_per_million":-1,"output_usd_per_million":1}`:                       "input_usd_per_million",
		`{"model":"m","input_usd_per_million":1,"output_usd_per_million":1,"over_input_tokens":-1}`: "over_input_tokens",
		`{"model":"m","input_usd_per_million":1,"output_usd_per_million":1000000000.000000001}`:     "output_usd_per_million",
		`{"model":"m","input_usd_per_million":1,"output_usd_per_million":1,"price":1}`:              "price",
	} {
		if a := n.send("POST", "/api/v1/prices", "", body); a.status != 400 || !strings.Contains(string(a.body), field) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	n := startShards(t, 2, nil)
	n.seeded()
	first := api.Settings{Retention: api.QueueRetention{Completed: "168h0m0s", Dead: "168h0m0s", Cancelled: "168h0m0s"}, UnknownModel: "ceiling"}
	if got := answers[api.Settings](n, 200, "GET", "/settings", ""); got != first {
		t.Errorf("at first: %+v", got)
	}
	want := api.Settings{Retention: api.QueueRetention{Completed: "1h0m0s", Dead: api.Forever, Cancelled: "168h0m0s"}, UnknownModel: "hold"}
	if got := answers[api.Settings](n, 200, "PUT", "/settings", `{"retention":{"completed":"1h","dead":"forever"},"unknown_model":"hold"}`); got != want {
		t.Errorf("set: %+v", got)
	}
	if got := answers[api.Settings](n, 200, "GET", "/settings?consistency=strong", ""); got != want {
		t.Errorf("read: %+v", got)
	}
	for _, queue := range queueOn(2) {
		held := answers[api.EnqueueResponse](n, 201, "POST", "/enqueue", `{"queue":"`+queue+`","model":"nobody's","provider":"p","cost_estimate_usd":0.25}`)
		n.send("POST", "/api/v1/fetch", "", `{"queues":["`+queue+`"],"timeout":1}`)
		if got := answers[api.Job](n, 200, "GET", "/jobs/"+held.JobID, ""); got.State != "held" || got.HoldReason == nil || !strings.Contains(*got.HoldReason, "nobody's") {
			t.Errorf("on the shard of %s: %+v", queue, got)
		}
		answers[api.Status](n, 200, "POST", "/jobs/"+held.JobID+"/approve", "")
		if got := answers[api.FetchedJob](n, 200, "POST", "/fetch", `{"queues":["`+queue+`"]}`); got.JobID != held.JobID {
			t.Errorf("fetched %s", got.JobID)
		}
		n.ran(queue, `,"model":"gpt-4.1"`, `{}`)
	}
	for _, body := range []string{`{"unknown_model":"free"}`, `{"retention":{"dead":"90000h"}}`, `{"retention":{"dead":"x"}}`, `{"other":1}`} {
		if a := n.send("PUT", "/api/v1/settings", "", body); a.status != 400 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	for _, body := range []string{`{"queue":"q","model":"` + strings.Repeat("m", job.MaxUsageWord+1) + `"}`, `{"queue":"q","cost_estimate_usd":-1}`,
		`{"queue":"q","cost_estimate_usd":1000000001}`, `{"queue":"q","provider":"` + strings.Repeat("p", job.MaxUsageWord+1) + `"}`} {
		if a := n.send("POST", "/api/v1/enqueue", "", body); a.status != 400 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

func init() {
	const nobody = "/api/v1/prices/price_00000000000000000000000000"
	const price = `{"model":"m","input_usd_per_million":1,"output_usd_per_million":1}`
	of := func(route, path, body string, status int) {
		row := scoped[route]
		row.path, row.body, row.status, row.lacks = path, body, status, "theirs\""
		scoped[route] = row
	}
	of("GET /api/v1/usage/summary", "/api/v1/usage/summary?group_by=queue", "", 200)
	of("GET /api/v1/settings", "", "", 200)
	of("PUT /api/v1/settings", "", `{}`, 403)
	of("GET /api/v1/prices", "", "", 200)
	of("POST /api/v1/prices", "", price, 403)
	of("GET /api/v1/prices/{id}", nobody, "", 404)
	of("PUT /api/v1/prices/{id}", nobody, price, 404)
	of("DELETE /api/v1/prices/{id}", nobody, "", 404)
}
