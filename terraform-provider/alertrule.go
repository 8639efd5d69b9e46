package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// alertRuleModel is the model of a corvo_alert_rule. It leaves out whether the rule fires,
// because that changes without Terraform.
type alertRuleModel struct {
	placed
	Name      types.String  `tfsdk:"name"`
	When      types.String  `tfsdk:"when"`
	Queue     types.String  `tfsdk:"queue"`
	Target    types.String  `tfsdk:"target"`
	Op        types.String  `tfsdk:"op"`
	Threshold types.Float64 `tfsdk:"threshold"`
	For       types.String  `tfsdk:"for"`
	Notify    types.String  `tfsdk:"notify"`
}

// The API's defaults of an alert rule.
const (
	defaultComparison = ">"
	atOnce            = "0s"
)

func newAlertRule() resource.Resource {
	return &declared[alertRuleModel, *alertRuleModel, api.AlertRuleRequest, api.AlertRule]{
		kind: "alert_rule", one: "alert rule",
		about:    "An alert rule: it notifies a webhook when a figure passes a threshold, and when it returns.",
		settings: alertRuleSettings,
		attributes: attributes{
			"name": "name", "when": "when", "queue": "queue", "target": "target", "op": "op", "threshold": "threshold", "for": "for", "notify": "notify",
		},
		create: (*client.Client).CreateAlertRule,
		get:    (*client.Client).AlertRule,
		put:    (*client.Client).PutAlertRule,
		remove: (*client.Client).DeleteAlertRule,
	}
}

func alertRuleSettings() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxLabel)},
			Description: "Name of the rule.",
		},
		"when": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{stringvalidator.OneOf("queue_depth", "dead", "workers", "oldest_pending", "budget")},
			Description: "Watched figure: queue_depth, dead, workers, oldest_pending (in seconds) or budget (in percent).",
		},
		"queue": schema.StringAttribute{
			Optional: true, Validators: []validator.String{isQueueName, stringvalidator.ConflictsWith(path.MatchRoot("target"))},
			Description: "Watched queue, not for a budget. Default: all queues.",
		},
		"target": schema.StringAttribute{
			Optional:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxResourceName)},
			Description: "Id of the watched budget; required if when is budget, otherwise refused.",
		},
		"op": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultComparison),
			Validators:  []validator.String{stringvalidator.OneOf(">", "<")},
			Description: "Comparison with the threshold: > (default) or <.",
		},
		"threshold": schema.Float64Attribute{
			Required:    true,
			Description: "Value that fires the alert when it is passed.",
		},
		"for": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(atOnce),
			PlanModifiers: []planmodifier.String{alike(sameDuration)},
			Validators:    []validator.String{isDurationWithin(0, maxAlertFor)},
			Description:   "Time beyond the threshold before the alert fires, at most 24h. Default: 0s.",
		},
		"notify": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
			Description: "Id of the webhook to notify.",
		},
	}
}

func (m *alertRuleModel) request(context.Context, *diag.Diagnostics) api.AlertRuleRequest {
	return api.AlertRuleRequest{
		Name:      m.Name.ValueString(),
		When:      m.When.ValueString(),
		Queue:     m.Queue.ValueString(),
		Target:    m.Target.ValueString(),
		Op:        m.Op.ValueString(),
		Threshold: m.Threshold.ValueFloat64Pointer(),
		For:       api.Duration(m.For.ValueString()),
		Notify:    m.Notify.ValueString(),
	}
}

func (m *alertRuleModel) observe(_ context.Context, a api.AlertRule, _ *diag.Diagnostics) {
	m.observed(a.ID, a.Version)
	m.Name, m.When, m.Op = types.StringValue(a.Name), types.StringValue(a.When), types.StringValue(a.Op)
	m.Queue, m.Target = textOf(a.Queue), textOf(a.Target)
	m.Threshold = types.Float64Value(a.Threshold)
	m.For = alike(sameDuration).observe(m.For, string(a.For))
	m.Notify = types.StringValue(a.Notify)
}
