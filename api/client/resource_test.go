package client

import (
	"context"
	"net/http"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing/money"
)

// asks is one call under test, with the expected request and response.
type asks struct {
	do              func(context.Context, *Client) (version int64, err error)
	method, path    string
	match, answer   string
	version         int64
	evenIfUncertain bool // the call is repeated even if an earlier try may have taken effect
}

// declared lists the calls for one kind of resource, with the resource id as the one that get, put and remove
// name.
func declared[Req, Resp any](
	all, one, id string, version func(Resp) int64,
	list func(*Client, context.Context, Read) ([]Resp, error),
	create func(*Client, context.Context, Req) (Resp, error),
	get func(*Client, context.Context, string, Read) (Resp, error),
	put func(*Client, context.Context, string, Req, int64) (Resp, error),
	remove func(*Client, context.Context, string, int64) error,
) []asks {
	var req Req
	of := func(x Resp, err error) (int64, error) { return version(x), err }
	return []asks{
		{func(ctx context.Context, c *Client) (int64, error) {
			all, err := list(c, ctx, Read{})
			return int64(len(all)), err
		}, "GET", all, "", `[{},{}]`, 2, true},
		{func(ctx context.Context, c *Client) (int64, error) { return of(create(c, ctx, req)) }, "POST", all, "", `{}`, 8, false},
		{func(ctx context.Context, c *Client) (int64, error) { return of(get(c, ctx, id, Read{})) }, "GET", one, "", `{}`, 8, true},
		{func(ctx context.Context, c *Client) (int64, error) { return of(put(c, ctx, id, req, 7)) }, "PUT", one, `"7"`, `{}`, 8, false},
		{func(ctx context.Context, c *Client) (int64, error) { return 0, remove(c, ctx, id, 7) }, "DELETE", one, `"7"`, `{}`, 0, false},
	}
}

// Each call sends the right request and passes the version out and back. A call whose response was lost
// is repeated only if a repeat has no second effect.
func TestNouns(t *testing.T) {
	t.Parallel()
	const tag, target = "tag", "customer=a/b"
	for name, calls := range map[string][]asks{
		"limit rule": declared("/limit-rules", "/limit-rules/q%2F%2A", "q/*", func(x api.LimitRule) int64 { return x.Version },
			(*Client).LimitRules, (*Client).CreateLimitRule, (*Client).LimitRule, (*Client).PutLimitRule, (*Client).DeleteLimitRule),
		"provider": declared("/providers", "/providers/acme", "acme", func(x api.Provider) int64 { return x.Version },
			(*Client).Providers, (*Client).CreateProvider, (*Client).Provider, (*Client).PutProvider, (*Client).DeleteProvider),
		"price": declared("/prices", "/prices/price_1", "price_1", func(x api.Price) int64 { return x.Version },
			(*Client).Prices, (*Client).CreatePrice, (*Client).Price, (*Client).PutPrice, (*Client).DeletePrice),
		"approval policy": declared("/approval-policies", "/approval-policies/pol_1", "pol_1", func(x api.ApprovalPolicy) int64 { return x.Version },
			(*Client).ApprovalPolicies, (*Client).CreateApprovalPolicy, (*Client).ApprovalPolicy, (*Client).PutApprovalPolicy, (*Client).DeleteApprovalPolicy),
		"alert rule": declared("/alerts", "/alerts/alert_1", "alert_1", func(x api.AlertRule) int64 { return x.Version },
			(*Client).AlertRules, (*Client).CreateAlertRule, (*Client).AlertRule, (*Client).PutAlertRule, (*Client).DeleteAlertRule),
		"webhook": declared("/webhooks", "/webhooks/hook_1", "hook_1", func(x api.Webhook) int64 { return x.Version },
			(*Client).Webhooks, (*Client).CreateWebhook, (*Client).Webhook, (*Client).PutWebhook, (*Client).DeleteWebhook),
		"budget": declared("/budgets", "/budgets/tag/customer=a%2Fb", target, func(x api.Budget) int64 { return x.Version },
			(*Client).Budgets, (*Client).CreateBudget,
			func(c *Client, ctx context.Context, target string, r Read) (api.Budget, error) {
				return c.Budget(ctx, tag, target, r)
			},
			func(c *Client, ctx context.Context, target string, req api.BudgetRequest, version int64) (api.Budget, error) {
				return c.PutBudget(ctx, tag, target, req, version)
			},
			func(c *Client, ctx context.Context, target string, version int64) error {
				return c.DeleteBudget(ctx, tag, target, version)
			}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, k := range calls {
				c, server, _ := against(t, hangsUp, says(200, k.answer, "ETag", `"8"`))
				version, err := k.do(t.Context(), c)
				if k.evenIfUncertain != (err == nil) {
					t.Errorf("%s %s after a lost answer: %v", k.method, k.path, err)
				}
				if err != nil {
					version, err = k.do(WithIdempotencyKey(t.Context(), "key"), c)
				}
				if err != nil || version != k.version {
					t.Errorf("%s %s is at %d, %v; want %d", k.method, k.path, version, err, k.version)
				}
				all, _ := server.requests()
				last := all[len(all)-1]
				if last.Method != k.method || last.URL.EscapedPath() != "/api/v1"+k.path || last.Header.Get("If-Match") != k.match {
					t.Errorf("it asked %s %s for version %s, want %s %s for %s", last.Method, last.URL.EscapedPath(), last.Header.Get("If-Match"), k.method, k.path, k.match)
				}
			}
		})
	}
}

// The calls that only some resources have send the right requests.
func TestNounCalls(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name   string
		do     func(context.Context, *Client) error
		method string
		path   string // with its query
		body   string
		answer string
	}{
		{"raise a budget", func(ctx context.Context, c *Client) error {
			amount := money.Nano(1_500_000_000)
			b, err := c.RaiseBudget(ctx, "queue", "q", api.RaiseBudgetRequest{AmountUSD: &amount, For: "1h"})
			if b.Version != 8 {
				t.Errorf("the budget is at %d, want 8", b.Version)
			}
			return err
		}, http.MethodPost, "/budgets/queue/q/raise", `{"amount_usd":1.5,"for":"1h"}`, `{}`},
		{"test a webhook", func(ctx context.Context, c *Client) error {
			_, err := c.TestWebhook(ctx, "hook_1")
			return err
		}, http.MethodPost, "/webhooks/hook_1/test", "", `{"status":"queued","delivery_id":"dlv_1"}`},
		{"deliveries", func(ctx context.Context, c *Client) error {
			_, err := c.Deliveries(ctx, "hook_1", Read{Strong: true})
			return err
		}, http.MethodGet, "/webhooks/hook_1/deliveries?consistency=strong", "", `[]`},
		{"settings", func(ctx context.Context, c *Client) error {
			_, err := c.Settings(ctx, Read{})
			return err
		}, http.MethodGet, "/settings", "", `{}`},
		{"put settings", func(ctx context.Context, c *Client) error {
			_, err := c.PutSettings(ctx, api.Settings{UnknownModel: api.UnknownModelHold})
			return err
		}, http.MethodPut, "/settings", `{"retention":{},"unknown_model":"hold"}`, `{}`},
		{"usage", func(ctx context.Context, c *Client) error {
			_, err := c.UsageSummary(ctx, SummaryQuery{}, Read{})
			return err
		}, http.MethodGet, "/usage/summary", "", `{}`},
		{"usage by tag", func(ctx context.Context, c *Client) error {
			_, err := c.UsageSummary(ctx, SummaryQuery{Period: "48h", To: "2026-01-02T00:00:00Z", GroupBy: "tag:customer", Timezone: "UTC"}, Read{Strong: true})
			return err
		}, http.MethodGet, "/usage/summary?consistency=strong&group_by=tag%3Acustomer&period=48h&timezone=UTC&to=2026-01-02T00%3A00%3A00Z", "", `{}`},
	} {
		c, server, _ := against(t, says(200, k.answer, "ETag", `"8"`))
		if err := k.do(t.Context(), c); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		all, bodies := server.requests()
		if got := all[0]; got.Method != k.method || got.URL.RequestURI() != "/api/v1"+k.path || bodies[0] != k.body {
			t.Errorf("%s asked %s %s with %s", k.name, got.Method, got.URL.RequestURI(), bodies[0])
		}
	}
}
