package provider_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/dataplane"
	"github.com/corvo/corvo/terraform-provider/examples"
	"github.com/corvo/corvo/terraform-provider/tftest"
)

// platform is terraform with a real bare node, to which the test applies the example.
type platform struct {
	*tftest.Dir
	t *testing.T
	c *client.Client
}

const webhookSecret = "a-secret-that-no-state-may-show"

func startPlatform(t *testing.T, tool *tftest.Tool) *platform {
	t.Helper()
	node, err := dataplane.Open(t.Context(), dataplane.Config{DataDir: t.TempDir(), NodeID: "platform", Dev: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(node.Handler())
	t.Cleanup(func() {
		node.Drain()
		front.Close()
		if err := node.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(front.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	d := tool.Dir(t, "CORVO_ENDPOINT="+front.URL, "TF_VAR_webhook_secret="+webhookSecret)
	return &platform{d, t, c}
}

// platformResources lists the addresses of the example's resources.
var platformResources = []string{
	"corvo_model_provider.anthropic", "corvo_price.agreed", "corvo_queue.agents", "corvo_limit_rule.each_tenant", "corvo_limit_rule.trial",
	"corvo_budget.all", "corvo_budget.trial", "corvo_approval_policy.dear", "corvo_webhook.alerts", "corvo_alert_rule.spent", "corvo_alert_rule.waiting",
}

// platformLife takes every kind of declared resource through its life on a real node: create, update in
// place, the same in other words, drift, deletion behind terraform's back, import, refusals, destroy.
func platformLife(t *testing.T, tool *tftest.Tool) {
	p := startPlatform(t, tool)
	p.Write("main.tf", examples.Platform)
	p.applies("11 to add, 0 to change, 0 to destroy")
	settled(t, p.Dir)
	p.asTheExampleSays()

	p.inOtherWords()
	p.updates()
	p.drifts()
	p.overtaken()
	p.disappears()
	p.imports()
	p.refuses()

	p.Destroy()
	p.empty()
	for where, text := range map[string]string{"the output": p.Said(), "the state": string(p.Read("terraform.tfstate.backup"))} {
		if strings.Contains(text, webhookSecret) {
			t.Errorf("the webhook's secret is in %s", where)
		}
	}
}

func (p *platform) applies(plan string) {
	p.t.Helper()
	if out := p.Apply(); !strings.Contains(out, "Plan: "+plan) {
		p.t.Fatalf("want a plan with %s:\n%s", plan, out)
	}
}

func (p *platform) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// id returns the id of a resource in the state.
func (p *platform) id(address string) string {
	p.t.Helper()
	kind, name, _ := strings.Cut(address, ".")
	id, ok := p.Attribute(kind, name, "id").(string)
	if !ok || id == "" {
		p.t.Fatalf("%s is not in the state", address)
	}
	return id
}

// strong makes a read see all earlier writes.
var strong = client.Read{Strong: true}

func usd(t *testing.T, text string) *api.USD {
	t.Helper()
	n, err := api.ParseUSD(text)
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

// asTheExampleSays checks one resource of each kind on the node.
func (p *platform) asTheExampleSays() {
	t, ctx := p.t, p.t.Context()
	t.Helper()
	q, err := p.c.Queue(ctx, "agents", strong)
	p.must(err)
	got := api.Queue{Provider: q.Provider, PriorityAgeingMs: q.PriorityAgeingMs}
	if diff := cmp.Diff(api.Queue{Provider: new("anthropic"), PriorityAgeingMs: new(int64(600_000))}, got); diff != "" {
		t.Errorf("the queue (-want +got):\n%s", diff)
	}
	rule, err := p.c.LimitRule(ctx, "agents/trial", strong)
	p.must(err)
	wantRule := api.LimitRule{ID: "agents/trial", Queue: "agents", Key: "trial", MaxConcurrency: new(2), RateLimit: new(30), RateWindowMs: new(int64(60_000))}
	if diff := cmp.Diff(wantRule, rule, cmpopts.IgnoreFields(wantRule, "CreatedAt", "Version")); diff != "" {
		t.Errorf("the limit rule (-want +got):\n%s", diff)
	}
	price, err := p.c.Price(ctx, p.id("corvo_price.agreed"), strong)
	p.must(err)
	if price.Provider != "anthropic" || price.InputUSDPerMillion != *usd(t, "2.7") || price.CacheCreationUSDPerMill != *usd(t, "3.375") {
		t.Errorf("the price is %+v", price)
	}
	b, err := p.c.Budget(ctx, "namespace", "default", strong)
	p.must(err)
	if *b.DailyUSD != *usd(t, "200") || b.DefaultReserveUSD != *usd(t, "0.5") {
		t.Errorf("the budget is %v a day, the reserve %v", b.DailyUSD, b.DefaultReserveUSD)
	}
	if b.OnExceed != api.ExceedHold || !slices.Equal(b.Alerts, []uint32{50, 80, 100}) {
		t.Errorf("the budget does %q when exceeded and alerts at %v", b.OnExceed, b.Alerts)
	}
	policy, err := p.c.ApprovalPolicy(ctx, p.id("corvo_approval_policy.dear"), strong)
	p.must(err)
	if *policy.CostUSDGt != *usd(t, "10") || *policy.AgentIterationGt != 50 {
		t.Errorf("the policy is for more than %v and %d iterations", policy.CostUSDGt, *policy.AgentIterationGt)
	}
	if !policy.Enabled || policy.Mode != api.ModeAny {
		t.Errorf("the policy is enabled: %v, mode %q", policy.Enabled, policy.Mode)
	}
	alert, err := p.c.AlertRule(ctx, p.id("corvo_alert_rule.waiting"), strong)
	p.must(err)
	if alert.Queue != "agents" || alert.Threshold != 300 || alert.For != "5m0s" {
		t.Errorf("the alert rule watches %+v", alert.AlertWatch)
	}
	if want := p.id("corvo_webhook.alerts"); alert.Notify != want {
		t.Errorf("the alert rule notifies %q, want %q", alert.Notify, want)
	}
}

// inOtherWords writes amounts and durations in other words with the same meaning, which must be no change.
func (p *platform) inOtherWords() {
	p.t.Helper()
	p.Write("main.tf", replaced(p.t, "2.7\n", `"2.700"`+"\n", "0.5\n", `"5e-1"`+"\n", `"1m"`, `"60s"`, `"24h"`, `"1440m"`, `"5m"`, `"300s"`, `"10m"`, `"600s"`))
	settled(p.t, p.Dir)
}

// replaced returns the example with some words replaced.
func replaced(t *testing.T, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(examples.Platform, pairs[i]) {
			t.Fatalf("the example has no %q", pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(examples.Platform)
}

// updates changes each resource in place, some of them by leaving out optional attributes.
func (p *platform) updates() {
	p.t.Helper()
	before := p.ids()
	p.Setenv("TF_VAR_webhook_secret_version", "2")
	p.Setenv("TF_VAR_daily_usd", "12.3456789012") // too fine
	says(p.t, p.ApplyFails(), "Not an amount of dollars", "decimals")
	p.Setenv("TF_VAR_daily_usd", "12.3456789")
	p.Write("main.tf", replaced(p.t,
		"  rpm_limit        = 4000\n", "",
		"  cache_creation_usd_per_million = 3.375\n", "",
		`"10m" # nothing waits for ever`, `"20m"`,
		"max_concurrency = 10\n", "paused = true\n",
		"  rate_limit      = 30\n  rate_window     = \"1m\"\n", "",
		"rolling_usd         = 5", "rolling_usd         = 0",
		"default_reserve_usd = 0.25", "per_job_usd         = 1",
		"  agent_iteration_gt = 50\n", "  enabled = false\n",
		`  events            = ["alert_fired", "alert_resolved"]`, "  retry_limit = 0",
		"threshold = 80", "threshold = 99.5",
		"  for       = \"5m\"\n", "",
	))
	says(p.t, p.ApplyFails(), "Cannot update budget key/trial: VALIDATION_ERROR", "rolling_usd")
	p.Write("main.tf", replaced(p.t,
		"  rpm_limit        = 4000\n", "",
		"  cache_creation_usd_per_million = 3.375\n", "",
		`"10m" # nothing waits for ever`, `"20m"`,
		"max_concurrency = 10\n", "paused = true\n",
		"  rate_limit      = 30\n  rate_window     = \"1m\"\n", "",
		"rolling_usd         = 5", "weekly_usd          = 5",
		"  rolling_window      = \"24h\"\n", "",
		"  default_reserve_usd = 0.25\n", "",
		"  agent_iteration_gt = 50\n", "  enabled = false\n",
		`  events            = ["alert_fired", "alert_resolved"]`, "  retry_limit = 0",
		"threshold = 80", "threshold = 99.5",
		"  for       = \"5m\"\n", "",
	))
	p.Apply()
	settled(p.t, p.Dir)
	for address, id := range p.ids() {
		if id != before[address] {
			p.t.Errorf("an update replaced %s", address)
		}
	}
	p.updated()
}

// updated checks the changes that updates has made on the node.
func (p *platform) updated() {
	t, ctx := p.t, p.t.Context()
	t.Helper()
	provider, err := p.c.Provider(ctx, "anthropic", strong)
	p.must(err)
	price, err := p.c.Price(ctx, p.id("corvo_price.agreed"), strong)
	p.must(err)
	each, err := p.c.LimitRule(ctx, "agents/*", strong)
	p.must(err)
	trial, err := p.c.LimitRule(ctx, "agents/trial", strong)
	p.must(err)
	b, err := p.c.Budget(ctx, "key", "trial", strong)
	p.must(err)
	all, err := p.c.Budget(ctx, "namespace", "default", strong)
	p.must(err)
	hook, err := p.c.Webhook(ctx, p.id("corvo_webhook.alerts"), strong)
	p.must(err)
	switch {
	case provider.RPMLimit != 0 || provider.InputTPMLimit != 2_000_000:
		t.Errorf("the provider is %+v", provider)
	case price.CacheCreationUSDPerMill != price.InputUSDPerMillion:
		t.Errorf("the price is %+v", price)
	case !each.Paused || each.MaxConcurrency != nil || trial.RateLimit != nil:
		t.Errorf("the limit rules are %+v and %+v", each, trial)
	case b.RollingUSD != nil || *b.WeeklyUSD != *usd(t, "5") || *all.DailyUSD != *usd(t, "12.3456789"):
		t.Errorf("the budgets are %+v and %+v", b, all)
	case len(hook.Events) != 0 || hook.RetryLimit != 0:
		t.Errorf("the webhook is %+v", hook)
	}
	p.Setenv("TF_VAR_daily_usd", "200")
	p.Write("main.tf", examples.Platform)
	p.Apply()
	settled(t, p.Dir)
	p.asTheExampleSays()
}

// ids returns the import id of each resource.
func (p *platform) ids() map[string]string {
	p.t.Helper()
	all := map[string]string{"corvo_queue.agents": "agents"}
	for _, address := range platformResources {
		if all[address] == "" {
			all[address] = p.id(address)
		}
	}
	for address, id := range map[string]string{
		"corvo_model_provider.anthropic": "anthropic", "corvo_limit_rule.each_tenant": "agents/*", "corvo_limit_rule.trial": "agents/trial",
		"corvo_budget.all": "namespace/default", "corvo_budget.trial": "key/trial",
	} {
		if all[address] != id {
			p.t.Errorf("%s has the id %s, want %s", address, all[address], id)
		}
	}
	return all
}

// drifts changes one resource of each kind behind terraform's back, and the next apply undoes that.
func (p *platform) drifts() {
	ctx, most, on := p.t.Context(), 3, true
	p.t.Helper()
	_, err := p.c.PutQueue(ctx, "agents", api.PutQueueRequest{Paused: &on})
	p.must(err)
	_, err = p.c.PutProvider(ctx, "anthropic", api.ProviderRequest{Name: "anthropic", RPMLimit: 1}, 0)
	p.must(err)
	price := p.id("corvo_price.agreed")
	_, err = p.c.PutPrice(ctx, price, api.PriceRequest{Model: "other", InputUSDPerMillion: usd(p.t, "1"), OutputUSDPerMillion: usd(p.t, "1")}, 0)
	p.must(err)
	_, err = p.c.PutLimitRule(ctx, "agents/trial", api.LimitRuleRequest{Queue: "agents", Key: "trial", MaxConcurrency: &most}, 0)
	p.must(err)
	_, err = p.c.PutBudget(ctx, "namespace", "default", api.BudgetRequest{DailyUSD: usd(p.t, "9"), DefaultReserveUSD: usd(p.t, "1")}, 0)
	p.must(err)
	_, err = p.c.PutApprovalPolicy(ctx, p.id("corvo_approval_policy.dear"), api.ApprovalPolicyRequest{Name: "other", Queue: "agents"}, 0)
	p.must(err)
	hook := p.id("corvo_webhook.alerts")
	_, err = p.c.PutWebhook(ctx, hook, api.WebhookRequest{URL: "https://elsewhere.example.com/"}, 0)
	p.must(err)
	threshold := 0.1
	_, err = p.c.PutAlertRule(ctx, p.id("corvo_alert_rule.waiting"), api.AlertRuleRequest{Name: "other", When: "workers", Op: "<", Threshold: &threshold, Notify: hook}, 0)
	p.must(err)
	// A raise is temporary, so it is no drift, and an update leaves it.
	_, err = p.c.RaiseBudget(ctx, "key", "trial", api.RaiseBudgetRequest{AmountUSD: usd(p.t, "3"), For: "1h"})
	p.must(err)
	p.applies("0 to add, 8 to change, 0 to destroy")
	settled(p.t, p.Dir)
	p.asTheExampleSays()
	b, err := p.c.Budget(ctx, "key", "trial", strong)
	p.must(err)
	if b.RaiseUSD != *usd(p.t, "3") {
		p.t.Errorf("the raise is %s, want 3", b.RaiseUSD)
	}
}

// overtaken checks that an apply does not silently undo a change that came after the plan.
func (p *platform) overtaken() {
	p.t.Helper()
	p.Setenv("TF_CLI_ARGS_apply", "-refresh=false")
	_, err := p.c.PutBudget(p.t.Context(), "namespace", "default", api.BudgetRequest{DailyUSD: usd(p.t, "9"), DefaultReserveUSD: usd(p.t, "1")}, 0)
	p.must(err)
	p.Setenv("TF_VAR_daily_usd", "201")
	says(p.t, p.ApplyFails(), "Cannot update budget namespace/default: PRECONDITION_FAILED", "changed it after Terraform had read it")
	p.Setenv("TF_VAR_daily_usd", "200")
	p.must(p.c.PauseQueue(p.t.Context(), "agents"))
	p.Write("main.tf", replaced(p.t, "max_concurrency = 200", "max_concurrency = 201"))
	says(p.t, p.ApplyFails(), "Cannot update queue agents: PRECONDITION_FAILED", "changed it after Terraform had read it")
	p.Setenv("TF_CLI_ARGS_apply", "")
	p.Write("main.tf", examples.Platform)
	p.applies("0 to add, 2 to change, 0 to destroy")
}

// disappears deletes all resources behind terraform's back, and terraform creates them again. It does not
// take over an existing resource that is in no state.
func (p *platform) disappears() {
	ctx := p.t.Context()
	p.t.Helper()
	for _, address := range []string{"corvo_alert_rule.spent", "corvo_alert_rule.waiting"} {
		p.must(p.c.DeleteAlertRule(ctx, p.id(address), 0))
	}
	p.must(p.c.DeleteWebhook(ctx, p.id("corvo_webhook.alerts"), 0))
	p.must(p.c.DeleteApprovalPolicy(ctx, p.id("corvo_approval_policy.dear"), 0))
	p.must(p.c.DeleteBudget(ctx, "namespace", "default", 0))
	p.must(p.c.DeleteBudget(ctx, "key", "trial", 0))
	p.must(p.c.DeleteLimitRule(ctx, "agents/*", 0))
	p.must(p.c.DeleteLimitRule(ctx, "agents/trial", 0))
	p.must(p.c.DeletePrice(ctx, p.id("corvo_price.agreed"), 0))
	p.must(p.c.DeleteQueue(ctx, "agents", true))
	p.must(p.c.DeleteProvider(ctx, "anthropic", 0))
	p.empty()
	p.applies("11 to add, 0 to change, 0 to destroy")
	settled(p.t, p.Dir)
	p.asTheExampleSays()
}

// empty checks that the node has no declared resource.
func (p *platform) empty() {
	ctx := p.t.Context()
	p.t.Helper()
	prices, err := p.c.Prices(ctx, strong)
	p.must(err)
	prices = slices.DeleteFunc(prices, func(x api.Price) bool { return x.Source == api.PriceShipped })
	rules, err := p.c.LimitRules(ctx, strong)
	p.must(err)
	providers, err := p.c.Providers(ctx, strong)
	p.must(err)
	budgets, err := p.c.Budgets(ctx, strong)
	p.must(err)
	policies, err := p.c.ApprovalPolicies(ctx, strong)
	p.must(err)
	hooks, err := p.c.Webhooks(ctx, strong)
	p.must(err)
	alerts, err := p.c.AlertRules(ctx, strong)
	p.must(err)
	queues, err := p.c.Queues(ctx, strong)
	p.must(err)
	if left := len(prices) + len(rules) + len(providers) + len(budgets) + len(policies) + len(hooks) + len(alerts) + len(queues); left != 0 {
		p.t.Errorf("%d things are left: %v %v %v %v %v %v %v %v", left, prices, rules, providers, budgets, policies, hooks, alerts, queues)
	}
}

// imports makes terraform forget all resources and import them again. Terraform then sends only the secret,
// because nobody knows whether the node has the same one. A create does not take over an existing resource.
func (p *platform) imports() {
	p.t.Helper()
	ids := p.ids()
	const named = "corvo_model_provider.anthropic"
	p.Forget(named)
	says(p.t, p.ApplyFails(), "Cannot create model provider: CONFLICT", "terraform import")
	p.Import(named, ids[named])
	delete(ids, named)
	p.Forget(slices.Collect(maps.Keys(ids))...)
	var blocks strings.Builder
	for address, id := range ids {
		fmt.Fprintf(&blocks, "import {\n  to = %s\n  id = %q\n}\n", address, id)
	}
	p.Write("imports.tf", blocks.String())
	p.applies("10 to import, 0 to add, 1 to change, 0 to destroy")
	p.Write("imports.tf", "")
	settled(p.t, p.Dir)
	p.asTheExampleSays()
}

const refusedPlatform = `
variable "webhook_secret" { ephemeral = true }
resource "corvo_queue" "q" {
  name            = "q"
  priority_ageing = "169h"
  model_provider  = "a/b"
}
resource "corvo_model_provider" "p" {
  name      = "p"
  rpm_limit = 0
}
resource "corvo_price" "p" {
  model                  = "m"
  input_usd_per_million  = "2,7"
  output_usd_per_million = 1000000000.01
}
resource "corvo_limit_rule" "r" {
  queue       = "q"
  key         = "k"
  rate_window = "1m"
}
resource "corvo_budget" "b" {
  scope     = "planet"
  target    = "default"
  daily_usd = -1
  alerts    = [0]
}
resource "corvo_budget" "none" {
  scope  = "job"
  target = "default"
}
resource "corvo_approval_policy" "p" {
  name      = "p"
  tag_value = "v"
}
resource "corvo_webhook" "w" {
  url               = "ftp://example.com"
  secret_wo         = "too short"
  secret_wo_version = 1
}
resource "corvo_alert_rule" "a" {
  name      = "a"
  when      = "weather"
  queue     = "q"
  target    = "queue/q"
  threshold = 1
  for       = "25h"
  notify    = "hook_1"
}
`

// refuses checks the refusals of a plan, and those that only the server can make.
func (p *platform) refuses() {
	p.t.Helper()
	p.Write("main.tf", head+refusedPlatform)
	says(p.t, p.ApplyFails(), "rpm_limit value must be between 1 and 1000000000", "Not an amount of dollars from 0 to 1000000000", "1000000000.01 is not between", "169h is not between 1ms and 168h0m0s",
		"Attribute model_provider 1 to 128 letters", "Attribute scope value must be one of", "Attribute secret_wo string length must be between 16 and 256",
		`"tag_key" must be specified when "tag_value" is specified`, `"target" cannot be specified when "queue" is specified`,
		`"rate_limit" must be specified when "rate_window" is specified`, "-1 is not between 0 and 1000000000", "between 1 and 1000, got: 0",
		"At least one of these attributes must be configured: [daily_usd,weekly_usd,monthly_usd,rolling_usd,per_job_usd]",
		"At least one of these attributes must be configured: [queue,tag_key,cost_usd_gt,agent_iteration_gt]",
		"of the kind https://host/path", "25h is not between 0s and 24h0m0s", "Attribute when value must be one of")
	p.Write("main.tf", replaced(p.t, `["alert_fired", "alert_resolved"]`, `["sunrise"]`, `"Europe/Berlin"`, `"Europe/Nowhere"`, "corvo_budget.all.id", `"nothing"`))
	says(p.t, p.ApplyFails(), "VALIDATION_ERROR", `"Europe/Nowhere"`, "sunrise", "timezone")
	p.Write("main.tf", examples.Platform)
	settled(p.t, p.Dir)
}
