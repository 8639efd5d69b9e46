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

// approvalPolicyModel is what the state has of a corvo_approval_policy.
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
		about:    "Which jobs are held until a person approves them. It has at least one condition.",
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
			Description: "Its name, unique among policies: a held job says it.",
		},
		"mode": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(api.ModeAny),
			Validators:  []validator.String{stringvalidator.OneOf(api.ModeAny, api.ModeAll)},
			Description: "Whether any (default) or all of the conditions must hold.",
		},
		"enabled": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			Description: "Whether it holds jobs. Default: true.",
		},
		"queue": schema.StringAttribute{
			Optional: true, Validators: []validator.String{isQueueName},
			Description: "The job is in this queue.",
		},
		"tag_key": schema.StringAttribute{
			Optional: true, Validators: []validator.String{stringvalidator.LengthBetween(1, maxTagName)},
			Description: "The job has this tag.",
		},
		"tag_value": schema.StringAttribute{
			Optional:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxTagValue), stringvalidator.AlsoRequires(path.MatchRoot("tag_key"))},
			Description: "The tag has this value. Default: any.",
		},
		"cost_usd_gt": schema.StringAttribute{
			Optional: true, PlanModifiers: []planmodifier.String{alike(sameUSD)},
			Validators:  []validator.String{isUSDWithin("0", maxUSD)},
			Description: "The job is said to cost, or has cost, more than so many dollars.",
		},
		"agent_iteration_gt": schema.Int64Attribute{
			Optional: true, Validators: []validator.Int64{int64validator.Between(0, maxIterations)},
			Description: "More than so many of the job's iterations have ended.",
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
