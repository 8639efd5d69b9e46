package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api/client"
)

// apiKeyEphemeral is the ephemeral resource corvo_api_key: the text of a key, made
// on this machine, anew in every plan and apply. Nobody is told: it opens nothing
// until a resource corvo_api_key takes it as its secret. An ephemeral resource that
// asked the control plane for a key would leave one behind at every plan.
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
		Description: "The secret of an API key, made on this machine anew in every plan and apply. It opens nothing until a resource corvo_api_key takes it.",
		Attributes: map[string]schema.Attribute{
			"secret": schema.StringAttribute{
				Computed: true, Sensitive: true,
				Description: "The key's text. Hand it on in the apply that makes or rotates the key: it is never seen again.",
			},
			"key_id": schema.StringAttribute{
				Computed:    true,
				Description: "The key's id, which stands in its text.",
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
