package provider

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// budgetModel is the model of a corvo_budget. It leaves out the spent amounts and a
// temporary raise, because they change without Terraform.
type budgetModel struct {
	placed
	Scope             types.String `tfsdk:"scope"`
	Target            types.String `tfsdk:"target"`
	DailyUSD          types.String `tfsdk:"daily_usd"`
	WeeklyUSD         types.String `tfsdk:"weekly_usd"`
	MonthlyUSD        types.String `tfsdk:"monthly_usd"`
	RollingUSD        types.String `tfsdk:"rolling_usd"`
	RollingWindow     types.String `tfsdk:"rolling_window"`
	PerJobUSD         types.String `tfsdk:"per_job_usd"`
	Timezone          types.String `tfsdk:"timezone"`
	OnExceed          types.String `tfsdk:"on_exceed"`
	DefaultReserveUSD types.String `tfsdk:"default_reserve_usd"`
	Alerts            types.Set    `tfsdk:"alerts"`
}

// leastUSD is the smallest positive amount.
const leastUSD = "0.000000001"

func newBudget() resource.Resource {
	return &declared[budgetModel, *budgetModel, api.BudgetRequest, api.Budget]{
		kind: "budget", one: "budget", idOf: []string{"scope", "target"},
		about:    "A budget: a limit on the cost of jobs. An attempt reserves its expected cost when it starts and settles its actual cost when it ends.",
		settings: budgetSettings,
		attributes: attributes{
			"scope": "scope", "target": "target", "name": "target", "daily_usd": "daily_usd", "weekly_usd": "weekly_usd", "monthly_usd": "monthly_usd",
			"rolling_usd": "rolling_usd", "rolling_window": "rolling_window", "per_job_usd": "per_job_usd", "timezone": "timezone",
			"on_exceed": "on_exceed", "default_reserve_usd": "default_reserve_usd", "alerts": "alerts",
		},
		create: (*client.Client).CreateBudget,
		get: func(c *client.Client, ctx context.Context, id string, r client.Read) (api.Budget, error) {
			scope, target, _ := strings.Cut(id, "/")
			return c.Budget(ctx, scope, target, r)
		},
		put: func(c *client.Client, ctx context.Context, id string, req api.BudgetRequest, version int64) (api.Budget, error) {
			scope, target, _ := strings.Cut(id, "/")
			return c.PutBudget(ctx, scope, target, req, version)
		},
		remove: func(c *client.Client, ctx context.Context, id string, version int64) error {
			scope, target, _ := strings.Cut(id, "/")
			return c.DeleteBudget(ctx, scope, target, version)
		},
		validators: []resource.ConfigValidator{resourcevalidator.AtLeastOneOf(
			path.MatchRoot("daily_usd"), path.MatchRoot("weekly_usd"), path.MatchRoot("monthly_usd"), path.MatchRoot("rolling_usd"), path.MatchRoot("per_job_usd"),
		)},
	}
}

func budgetSettings() map[string]schema.Attribute {
	replaces := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	dollars := func(least, about string, also ...validator.String) schema.Attribute {
		return schema.StringAttribute{
			Optional: true, PlanModifiers: []planmodifier.String{alike(sameUSD)},
			Validators:  append(also, isUSDWithin(least, maxUSD)),
			Description: about,
		}
	}
	return map[string]schema.Attribute{
		"scope": schema.StringAttribute{
			Required: true, PlanModifiers: replaces,
			Validators:  []validator.String{stringvalidator.OneOf("namespace", "queue", "tag", "key", "job")},
			Description: "Scope of the budget: namespace, queue, tag, key (a fairness key) or job (each job).",
		},
		"target": schema.StringAttribute{
			Required: true, PlanModifiers: replaces,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxBudgetTarget), isReachable},
			Description: `Target in the scope: a queue, a tag as name=value or a fairness key; "default" for the scopes namespace and job.`,
		},
		"daily_usd":   dollars("0", "Limit for a day in dollars. Default: no limit."),
		"weekly_usd":  dollars("0", "Limit for a week, which starts on Monday, in dollars. Default: no limit."),
		"monthly_usd": dollars("0", "Limit for a month in dollars. Default: no limit."),
		"rolling_usd": dollars("0", "Limit for any rolling_window in dollars. Default: no limit.", stringvalidator.AlsoRequires(path.MatchRoot("rolling_window"))),
		"rolling_window": schema.StringAttribute{
			Optional: true, PlanModifiers: []planmodifier.String{alike(sameDuration)},
			Validators:  []validator.String{isDurationWithin(minRollingWindow, maxRollingWindow), stringvalidator.AlsoRequires(path.MatchRoot("rolling_usd"))},
			Description: `Window of rolling_usd, such as "24h": 1m to 9600h.`,
		},
		"per_job_usd": dollars(leastUSD, "Limit for all attempts of one job in dollars. Default: no limit."),
		"timezone": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultTimezone),
			Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
			Description: "Time zone of days, weeks and months, by its IANA name, such as Europe/Berlin. Default: UTC.",
		},
		"on_exceed": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(api.ExceedHold),
			Validators:  []validator.String{stringvalidator.OneOf(api.ExceedHold, api.ExceedReject, api.ExceedThrottle, api.ExceedAlertOnly)},
			Description: "Action for a job over the limit: hold (default), reject, throttle or alert_only.",
		},
		"default_reserve_usd": dollars(leastUSD, "Reserve of an attempt of a job without an estimate, in dollars. Default: the rest of per_job_usd, else the average cost of the queue's attempts, at least 1 % of the smallest limit."),
		"alerts": schema.SetAttribute{
			ElementType: types.Int64Type, Optional: true,
			Validators:  []validator.Set{setvalidator.SizeBetween(1, maxBudgetAlerts), setvalidator.ValueInt64sAre(int64validator.Between(1, maxAlertPercent))},
			Description: "Percentages of a limit that send an event, once in each window. Default: none.",
		},
	}
}

func (m *budgetModel) request(ctx context.Context, to *diag.Diagnostics) api.BudgetRequest {
	req := api.BudgetRequest{
		Scope:             m.Scope.ValueString(),
		Target:            m.Target.ValueString(),
		DailyUSD:          givenUSD("daily_usd", m.DailyUSD, to),
		WeeklyUSD:         givenUSD("weekly_usd", m.WeeklyUSD, to),
		MonthlyUSD:        givenUSD("monthly_usd", m.MonthlyUSD, to),
		RollingUSD:        givenUSD("rolling_usd", m.RollingUSD, to),
		RollingWindow:     api.Duration(m.RollingWindow.ValueString()),
		PerJobUSD:         givenUSD("per_job_usd", m.PerJobUSD, to),
		Timezone:          m.Timezone.ValueString(),
		OnExceed:          m.OnExceed.ValueString(),
		DefaultReserveUSD: givenUSD("default_reserve_usd", m.DefaultReserveUSD, to),
	}
	var percents []int64
	to.Append(m.Alerts.ElementsAs(ctx, &percents, false)...)
	for _, n := range slices.Sorted(slices.Values(percents)) {
		req.Alerts = append(req.Alerts, uint32(n))
	}
	return req
}

func (m *budgetModel) observe(ctx context.Context, b api.Budget, to *diag.Diagnostics) {
	m.observed(b.Scope+"/"+b.Target, b.Version)
	m.Scope, m.Target = types.StringValue(b.Scope), types.StringValue(b.Target)
	m.DailyUSD, m.WeeklyUSD = observeUSD(m.DailyUSD, b.DailyUSD), observeUSD(m.WeeklyUSD, b.WeeklyUSD)
	m.MonthlyUSD, m.RollingUSD = observeUSD(m.MonthlyUSD, b.MonthlyUSD), observeUSD(m.RollingUSD, b.RollingUSD)
	m.RollingWindow = alike(sameDuration).observe(m.RollingWindow, durationText(b.RollingWindow))
	m.PerJobUSD = observeUSD(m.PerJobUSD, b.PerJobUSD)
	m.Timezone, m.OnExceed = types.StringValue(b.Timezone), types.StringValue(b.OnExceed)
	reserve := &b.DefaultReserveUSD
	if *reserve == 0 { // none
		reserve = nil
	}
	m.DefaultReserveUSD = observeUSD(m.DefaultReserveUSD, reserve)
	m.Alerts = types.SetNull(types.Int64Type)
	if len(b.Alerts) > 0 {
		percents := make([]int64, len(b.Alerts))
		for i, n := range b.Alerts {
			percents[i] = int64(n)
		}
		alerts, diags := types.SetValueFrom(ctx, types.Int64Type, percents)
		to.Append(diags...)
		m.Alerts = alerts
	}
}
