package provider

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// modelProviderModel is the model of a corvo_model_provider. The API calls it a provider,
// which means something else in Terraform.
type modelProviderModel struct {
	placed
	Name           types.String `tfsdk:"name"`
	RPMLimit       types.Int64  `tfsdk:"rpm_limit"`
	InputTPMLimit  types.Int64  `tfsdk:"input_tpm_limit"`
	OutputTPMLimit types.Int64  `tfsdk:"output_tpm_limit"`
}

// isProviderName validates the name of a model provider.
var isProviderName = stringvalidator.RegexMatches(regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9._:-]{1,%d}$`, maxLabel)), "1 to 128 letters, digits, dots, underscores, colons and hyphens")

func newModelProvider() resource.Resource {
	return &declared[modelProviderModel, *modelProviderModel, api.ProviderRequest, api.Provider]{
		kind: "model_provider", one: "model provider", idOf: []string{"name"},
		about:      "A model provider with its limits for a minute. Jobs wait when a limit is reached.",
		settings:   modelProviderSettings,
		attributes: attributes{"name": "name", "rpm_limit": "rpm_limit", "input_tpm_limit": "input_tpm_limit", "output_tpm_limit": "output_tpm_limit"},
		create:     (*client.Client).CreateProvider,
		get:        (*client.Client).Provider,
		put:        (*client.Client).PutProvider,
		remove:     (*client.Client).DeleteProvider,
	}
}

func modelProviderSettings() map[string]schema.Attribute {
	perMinute := func(what string) schema.Attribute {
		return schema.Int64Attribute{
			Optional:    true,
			Validators:  []validator.Int64{int64validator.Between(1, maxTokensPerMinute)},
			Description: "Limit on " + what + " in a minute, over all jobs of the provider. Default: no limit.",
		}
	}
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			Validators:  []validator.String{isProviderName, isReachable},
			Description: "Name of the provider, to which jobs and queues refer.",
		},
		"rpm_limit":        perMinute("requests"),
		"input_tpm_limit":  perMinute("input tokens"),
		"output_tpm_limit": perMinute("output tokens"),
	}
}

func (m *modelProviderModel) request(context.Context, *diag.Diagnostics) api.ProviderRequest {
	return api.ProviderRequest{
		Name:           m.Name.ValueString(),
		RPMLimit:       m.RPMLimit.ValueInt64(),
		InputTPMLimit:  m.InputTPMLimit.ValueInt64(),
		OutputTPMLimit: m.OutputTPMLimit.ValueInt64(),
	}
}

func (m *modelProviderModel) observe(_ context.Context, p api.Provider, _ *diag.Diagnostics) {
	m.observed(p.Name, p.Version)
	m.Name = types.StringValue(p.Name)
	m.RPMLimit, m.InputTPMLimit, m.OutputTPMLimit = limit(&p.RPMLimit), limit(&p.InputTPMLimit), limit(&p.OutputTPMLimit)
}
