package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// priceModel is the model of a corvo_price in the state.
type priceModel struct {
	placed
	ModelProvider   types.String `tfsdk:"model_provider"`
	Model           types.String `tfsdk:"model"`
	OverInputTokens types.Int64  `tfsdk:"over_input_tokens"`
	Input           types.String `tfsdk:"input_usd_per_million"`
	Output          types.String `tfsdk:"output_usd_per_million"`
	CacheCreation   types.String `tfsdk:"cache_creation_usd_per_million"`
	CacheRead       types.String `tfsdk:"cache_read_usd_per_million"`
}

func newPrice() resource.Resource {
	return &declared[priceModel, *priceModel, api.PriceRequest, api.Price]{
		kind: "price", one: "price",
		about:    "A price of a model's tokens. It overrides the built-in prices, which Terraform does not manage.",
		settings: priceSettings,
		attributes: attributes{
			"provider": "model_provider", "model": "model", "over_input_tokens": "over_input_tokens",
			"input_usd_per_million": "input_usd_per_million", "output_usd_per_million": "output_usd_per_million",
			"cache_creation_usd_per_million": "cache_creation_usd_per_million", "cache_read_usd_per_million": "cache_read_usd_per_million",
		},
		create: (*client.Client).CreatePrice,
		get:    (*client.Client).Price,
		put:    (*client.Client).PutPrice,
		remove: (*client.Client).DeletePrice,
	}
}

func priceSettings() map[string]schema.Attribute {
	dollars := func(required bool, about string) schema.Attribute {
		return schema.StringAttribute{
			Required: required, Optional: !required, PlanModifiers: []planmodifier.String{alike(sameUSD)},
			Validators:  []validator.String{isUSDWithin("0", maxUSD)},
			Description: about,
		}
	}
	return map[string]schema.Attribute{
		"model_provider": schema.StringAttribute{
			Optional:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxUsageWord)},
			Description: "Provider of the model. Default: any.",
		},
		"model": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxUsageWord)},
			Description: "Name of the model in usage reports; a * at its end matches any ending.",
		},
		"over_input_tokens": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(0),
			Validators:  []validator.Int64{int64validator.AtLeast(0)},
			Description: "Input tokens, cached or not, above which the price applies. Default: 0.",
		},
		"input_usd_per_million":          dollars(true, "Dollars for a million input tokens."),
		"output_usd_per_million":         dollars(true, "Dollars for a million output tokens."),
		"cache_creation_usd_per_million": dollars(false, "Dollars for a million input tokens written to the provider's cache. Default: the input price."),
		"cache_read_usd_per_million":     dollars(false, "Dollars for a million input tokens read from the provider's cache. Default: the input price."),
	}
}

func (m *priceModel) request(_ context.Context, to *diag.Diagnostics) api.PriceRequest {
	return api.PriceRequest{
		Provider:                m.ModelProvider.ValueString(),
		Model:                   m.Model.ValueString(),
		OverInputTokens:         m.OverInputTokens.ValueInt64(),
		InputUSDPerMillion:      givenUSD("input_usd_per_million", m.Input, to),
		OutputUSDPerMillion:     givenUSD("output_usd_per_million", m.Output, to),
		CacheCreationUSDPerMill: givenUSD("cache_creation_usd_per_million", m.CacheCreation, to),
		CacheReadUSDPerMillion:  givenUSD("cache_read_usd_per_million", m.CacheRead, to),
	}
}

func (m *priceModel) observe(_ context.Context, p api.Price, _ *diag.Diagnostics) {
	m.observed(p.ID, p.Version)
	m.ModelProvider, m.Model = textOf(p.Provider), types.StringValue(p.Model)
	m.OverInputTokens = types.Int64Value(p.OverInputTokens)
	m.Input, m.Output = observeUSD(m.Input, &p.InputUSDPerMillion), observeUSD(m.Output, &p.OutputUSDPerMillion)
	m.CacheCreation = observeCached(m.CacheCreation, p.CacheCreationUSDPerMill, p.InputUSDPerMillion)
	m.CacheRead = observeCached(m.CacheRead, p.CacheReadUSDPerMillion, p.InputUSDPerMillion)
}

// observeCached returns a price of cached tokens for the state. If the configuration omits
// it and the server answers its default, the input price, the state has none.
func observeCached(prior types.String, now, input api.USD) types.String {
	if prior.IsNull() && now == input {
		return prior
	}
	return observeUSD(prior, &now)
}
