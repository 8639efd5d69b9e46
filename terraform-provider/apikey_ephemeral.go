package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api/client"
)

// apiKeyEphemeral is the ephemeral resource corvo_api_key: the text of a new key,
// generated on this machine in every plan and apply. The key gives no access until a
// resource corvo_api_key takes it as its secret. An ephemeral resource that asked the
// control plane for a key was rejected, because every plan would leave a key behind.
type apiKeyEphemeral struct{}

var _ ephemeral.EphemeralResource = apiKeyEphemeral{}

type apiKeyEphemeralModel struct {
	Secret types.String `tfsdk:"secret"`
	KeyID  types.String `tfsdk:"key_id"`
}

func (apiKeyEphemeral) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_api_key"
}

func (apiKeyEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "A new secret of an API key, generated on this machine in every plan and apply. It gives no access until a resource corvo_api_key takes it.",
		Attributes: map[string]schema.Attribute{
			"secret": schema.StringAttribute{
				Computed: true, Sensitive: true,
				Description: "Text of the key. Pass it on in the apply that creates or rotates the key, because it is never shown again.",
			},
			"key_id": schema.StringAttribute{
				Computed:    true,
				Description: "Id of the key, a part of its text.",
			},
		},
	}
}

func (apiKeyEphemeral) Open(ctx context.Context, _ ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	secret, err := client.NewSecret()
	if err != nil {
		resp.Diagnostics.AddError("Cannot make an API key", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.Result.Set(ctx, apiKeyEphemeralModel{
		Secret: types.StringValue(secret.Text),
		KeyID:  types.StringValue(secret.ID),
	})...)
}
