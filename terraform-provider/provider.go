// Package provider is the Terraform provider corvo/corvo. Its resources are namespaces, API
// keys and the declared resources of a namespace (queues, schedules, limits, prices,
// budgets, policies, alerts), in the cloud or on a single node. It is a client like any
// other: of this module it imports only api and api/client. No secret is in the state,
// because secrets are ephemeral or write-only.
package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Address is the provider's address in the Terraform registry.
const Address = "registry.terraform.io/corvo/corvo"

// Serve answers Terraform until Terraform closes the connection. With debug, a person has
// started the process in a debugger, and Serve prints how Terraform finds it.
func Serve(ctx context.Context, version string, debug bool) error {
	return providerserver.Serve(ctx, func() provider.Provider { return New(version) }, providerserver.ServeOpts{
		Address:         Address,
		Debug:           debug,
		ProtocolVersion: 6,
	})
}

type corvo struct{ version string }

var _ provider.ProviderWithEphemeralResources = (*corvo)(nil)

// New makes the provider.
func New(version string) provider.Provider { return &corvo{version} }

func (p *corvo) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "corvo"
	resp.Version = p.version
}

func (p *corvo) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Manages Corvo: namespaces, API keys, queues, schedules, limits, prices, budgets, policies, webhooks and alerts. A cloud token gives access to an organisation, an API key to one namespace or a single node.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional:    true,
				Description: "URL of the cloud or of the node, such as http://127.0.0.1:8080. Environment: CORVO_ENDPOINT.",
			},
			"api_key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "API key of a namespace or of a single node, for resources in it. Environment: CORVO_API_KEY.",
			},
			"cloud_token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "Cloud token of the organisation, for namespaces, their keys and resources in them. Environment: CORVO_CLOUD_TOKEN.",
			},
			"namespace": schema.StringAttribute{
				Optional:    true,
				Description: "Id or name of the default namespace of resources; needs cloud_token. Environment: CORVO_NAMESPACE.",
			},
			"organization": schema.StringAttribute{
				Optional:    true,
				Description: "Id or name of the organisation for new namespaces. Default: the cloud token's only organisation.",
			},
		},
	}
}

type providerModel struct {
	Endpoint     types.String `tfsdk:"endpoint"`
	APIKey       types.String `tfsdk:"api_key"`
	CloudToken   types.String `tfsdk:"cloud_token"`
	Namespace    types.String `tfsdk:"namespace"`
	Organization types.String `tfsdk:"organization"`
}

// Configure validates nothing, because a value may be unknown during a plan and a resource
// may not need a missing one.
func (p *corvo) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var m providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.ResourceData = newSession(m)
}

func (p *corvo) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &namespaceResource{} },
		func() resource.Resource { return &queueResource{} },
		func() resource.Resource { return &scheduleResource{} },
		func() resource.Resource { return &apiKeyResource{} },
		newLimitRule,
		newModelProvider,
		newPrice,
		newBudget,
		newApprovalPolicy,
		newWebhook,
		newAlertRule,
		newRole,
	}
}

func (p *corvo) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		func() ephemeral.EphemeralResource { return apiKeyEphemeral{} },
	}
}

func (p *corvo) DataSources(context.Context) []func() datasource.DataSource { return nil }
