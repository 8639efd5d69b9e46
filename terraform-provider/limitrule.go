package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// limitRuleModel is the model of a corvo_limit_rule. It always has a fairness key, because
// corvo_queue has the limits of a whole queue and two states must not hold one value.
type limitRuleModel struct {
	placed
	Queue          types.String `tfsdk:"queue"`
	Key            types.String `tfsdk:"key"`
	MaxConcurrency types.Int64  `tfsdk:"max_concurrency"`
	RateLimit      types.Int64  `tfsdk:"rate_limit"`
	RateWindow     types.String `tfsdk:"rate_window"`
	Paused         types.Bool   `tfsdk:"paused"`
}

func newLimitRule() resource.Resource {
	return &declared[limitRuleModel, *limitRuleModel, api.LimitRuleRequest, api.LimitRule]{
		kind: "limit_rule", one: "limit rule", idOf: []string{"queue", "key"},
		about:    "A limit rule for one fairness key of a queue. corvo_queue has the limits of a whole queue.",
		settings: limitRuleSettings,
		attributes: attributes{
			"queue": "queue", "key": "key", "max_concurrency": "max_concurrency", "rate_limit": "rate_limit", "rate_window": "rate_window",
		},
		create: (*client.Client).CreateLimitRule,
		get:    (*client.Client).LimitRule,
		put:    (*client.Client).PutLimitRule,
		remove: (*client.Client).DeleteLimitRule,
	}
}

func limitRuleSettings() map[string]schema.Attribute {
	replaces := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return map[string]schema.Attribute{
		"queue": schema.StringAttribute{
			Required: true, PlanModifiers: replaces,
			Validators:  []validator.String{isQueueName},
			Description: "Name of the queue, which need not exist.",
		},
		"key": schema.StringAttribute{
			Required: true, PlanModifiers: replaces,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxFairnessKey)},
			Description: "Fairness key, or * for every key without a rule of its own.",
		},
		"max_concurrency": schema.Int64Attribute{
			Optional:    true,
			Validators:  []validator.Int64{int64validator.Between(1, maxConcurrency)},
			Description: "Limit on active jobs of the key. Default: no limit.",
		},
		"rate_limit": schema.Int64Attribute{
			Optional:    true,
			Validators:  []validator.Int64{int64validator.Between(1, maxRateLimit), int64validator.AlsoRequires(path.MatchRoot("rate_window"))},
			Description: "Limit on jobs of the key started in any rate_window. Default: no limit.",
		},
		"rate_window": schema.StringAttribute{
			Optional: true, PlanModifiers: []planmodifier.String{alike(sameDuration)},
			Validators:  []validator.String{isDurationWithin(minRateWindow, maxRateWindow), stringvalidator.AlsoRequires(path.MatchRoot("rate_limit"))},
			Description: `Window of rate_limit, such as "1m": 1s to 24h.`,
		},
		"paused": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			Description: "Whether no job of the key starts. Default: false.",
		},
	}
}

func (m *limitRuleModel) request(context.Context, *diag.Diagnostics) api.LimitRuleRequest {
	return api.LimitRuleRequest{
		Queue:          m.Queue.ValueString(),
		Key:            m.Key.ValueString(),
		MaxConcurrency: given(m.MaxConcurrency),
		RateLimit:      given(m.RateLimit),
		RateWindow:     api.Duration(m.RateWindow.ValueString()),
		Paused:         m.Paused.ValueBoolPointer(),
	}
}

func (m *limitRuleModel) observe(_ context.Context, r api.LimitRule, _ *diag.Diagnostics) {
	m.observed(r.ID, r.Version)
	m.Queue, m.Key = types.StringValue(r.Queue), types.StringValue(r.Key)
	m.MaxConcurrency, m.RateLimit = limit(r.MaxConcurrency), limit(r.RateLimit)
	m.RateWindow = observeMs(m.RateWindow, r.RateWindowMs)
	m.Paused = types.BoolValue(r.Paused)
}

// observeMs converts the server's milliseconds to a duration for the state; nil and 0 become null.
func observeMs(prior types.String, ms *int64) types.String {
	if ms == nil || *ms == 0 {
		return types.StringNull()
	}
	return alike(sameDuration).observe(prior, (time.Duration(*ms) * time.Millisecond).String())
}
