package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/resourcevalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// approvalPolicyModel is the model of a corvo_approval_policy in the state.
type approvalPolicyModel struct {
	placed
	Name             types.String `tfsdk:"name"`
	Mode             types.String `tfsdk:"mode"`
	Enabled          types.Bool   `tfsdk:"enabled"`
	Queue            types.String `tfsdk:"queue"`
	TagKey           types.String `tfsdk:"tag_key"`
	TagValue         types.String `tfsdk:"tag_value"`
	CostUSDGt        types.String `tfsdk:"cost_usd_gt"`
	AgentIterationGt types.Int64  `tfsdk:"agent_iteration_gt"`
}

func newApprovalPolicy() resource.Resource {
	return &declared[approvalPolicyModel, *approvalPolicyModel, api.ApprovalPolicyRequest, api.ApprovalPolicy]{
		kind: "approval_policy", one: "approval policy",
		about:    "An approval policy: it holds matching jobs until a person approves them. At least one condition is needed.",
		settings: approvalPolicySettings,
		attributes: attributes{
			"name": "name", "mode": "mode", "enabled": "enabled", "queue": "queue", "tag_key": "tag_key", "tag_value": "tag_value",
			"cost_usd_gt": "cost_usd_gt", "agent_iteration_gt": "agent_iteration_gt",
		},
		create: (*client.Client).CreateApprovalPolicy,
		get:    (*client.Client).ApprovalPolicy,
		put:    (*client.Client).PutApprovalPolicy,
		remove: (*client.Client).DeleteApprovalPolicy,
		validators: []resource.ConfigValidator{resourcevalidator.AtLeastOneOf(
			path.MatchRoot("queue"), path.MatchRoot("tag_key"), path.MatchRoot("cost_usd_gt"), path.MatchRoot("agent_iteration_gt"),
		)},
	}
}

func approvalPolicySettings() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxLabel)},
			Description: "Name of the policy, unique among policies. A held job shows it.",
		},
		"mode": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(api.ModeAny),
			Validators:  []validator.String{stringvalidator.OneOf(api.ModeAny, api.ModeAll)},
			Description: "Conditions that must hold: any (default) or all.",
		},
		"enabled": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			Description: "Whether the policy applies. Default: true.",
		},
		"queue": schema.StringAttribute{
			Optional: true, Validators: []validator.String{isQueueName},
			Description: "Condition: queue of the job.",
		},
		"tag_key": schema.StringAttribute{
			Optional: true, Validators: []validator.String{stringvalidator.LengthBetween(1, maxTagName)},
			Description: "Condition: name of a tag of the job.",
		},
		"tag_value": schema.StringAttribute{
			Optional:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxTagValue), stringvalidator.AlsoRequires(path.MatchRoot("tag_key"))},
			Description: "Condition: value of the tag tag_key. Default: any.",
		},
		"cost_usd_gt": schema.StringAttribute{
			Optional: true, PlanModifiers: []planmodifier.String{alike(sameUSD)},
			Validators:  []validator.String{isUSDWithin("0", maxUSD)},
			Description: "Condition: cost or estimate above this number of dollars.",
		},
		"agent_iteration_gt": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(0, maxIterations)},
			Description: "Condition: more finished iterations than this number.",
		},
	}
}

func (m *approvalPolicyModel) request(_ context.Context, to *diag.Diagnostics) api.ApprovalPolicyRequest {
	return api.ApprovalPolicyRequest{
		Name:             m.Name.ValueString(),
		Mode:             m.Mode.ValueString(),
		Enabled:          m.Enabled.ValueBoolPointer(),
		Queue:            m.Queue.ValueString(),
		TagKey:           m.TagKey.ValueString(),
		TagValue:         m.TagValue.ValueString(),
		CostUSDGt:        givenUSD("cost_usd_gt", m.CostUSDGt, to),
		AgentIterationGt: given(m.AgentIterationGt),
	}
}

func (m *approvalPolicyModel) observe(_ context.Context, p api.ApprovalPolicy, _ *diag.Diagnostics) {
	m.observed(p.ID, p.Version)
	m.Name, m.Mode, m.Enabled = types.StringValue(p.Name), types.StringValue(p.Mode), types.BoolValue(p.Enabled)
	m.Queue = types.StringPointerValue(p.Queue)
	m.TagKey, m.TagValue = types.StringPointerValue(p.TagKey), types.StringPointerValue(p.TagValue)
	m.CostUSDGt = observeUSD(m.CostUSDGt, p.CostUSDGt)
	m.AgentIterationGt = numberOf(p.AgentIterationGt)
}
