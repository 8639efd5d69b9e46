// Package provider is the Terraform provider corvo/corvo: namespaces, API keys, and what
// is declared in a namespace (queues, schedules, limits, prices, budgets, policies,
// alerts) as Terraform resources, of a cloud or of a bare node. It is a client like any
// other: of ours it imports only api and api/client. It holds no secret in state: those
// are ephemeral or write-only.
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

// Address is where Terraform looks for the provider.
const Address = "registry.terraform.io/corvo/corvo"

// Serve answers Terraform until it hangs up. With debug the process is started by
// a person, in a debugger, and prints how Terraform finds it.
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
		Description: "Namespaces and API keys of Corvo, and what is declared in a namespace: queues, schedules, limits, prices, budgets, policies, webhooks and alerts. With a cloud token it manages a cloud's organisation; with an API key, one namespace or a bare node.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional:    true,
				Description: "URL of the cloud or of the node, such as http://127.0.0.1:8080. Environment: CORVO_ENDPOINT.",
			},
			"api_key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "API key of a namespace or of a bare node, for what is declared in it. Environment: CORVO_API_KEY.",
			},
			"cloud_token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "Cloud token of the organisation, for namespaces, their keys and what is declared in them. Environment: CORVO_CLOUD_TOKEN.",
			},
			"namespace": schema.StringAttribute{
				Optional:    true,
				Description: "Id or name of the namespace of resources that name none; it needs cloud_token. Environment: CORVO_NAMESPACE.",
			},
			"organization": schema.StringAttribute{
				Optional:    true,
				Description: "Id or name of the organisation that namespaces are made in. Default: the only one the cloud token sees.",
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

// Configure judges nothing: a value may still be unknown when Terraform plans, and
// what a resource does not need may be missing.
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
