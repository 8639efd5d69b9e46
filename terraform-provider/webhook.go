package provider

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// webhookModel is the model of a corvo_webhook. It leaves out the outcome of the last
// delivery, because that changes without Terraform.
type webhookModel struct {
	placed
	URL             types.String `tfsdk:"url"`
	Events          types.Set    `tfsdk:"events"`
	Queues          types.Set    `tfsdk:"queues"`
	SecretOverlap   types.String `tfsdk:"secret_overlap"`
	Enabled         types.Bool   `tfsdk:"enabled"`
	RetryLimit      types.Int64  `tfsdk:"retry_limit"`
	SecretWO        types.String `tfsdk:"secret_wo"`
	SecretWOVersion types.Int64  `tfsdk:"secret_wo_version"`
}

const (
	defaultRetryLimit    = 3
	defaultSecretOverlap = "24h"
)

var isWebhookURL = stringvalidator.RegexMatches(regexp.MustCompile(`^https?://[^/]`), "of the kind https://host/path")

func newWebhook() resource.Resource {
	return &declared[webhookModel, *webhookModel, api.WebhookRequest, api.Webhook]{
		kind: "webhook", one: "webhook",
		about:      "A webhook, which receives events. A secret, stored in no state and no plan, signs the deliveries.",
		settings:   webhookSettings,
		attributes: attributes{"url": "url", "events": "events", "queues": "queues", "secret_overlap": "secret_overlap", "enabled": "enabled", "retry_limit": "retry_limit", "secret": "secret_wo"},
		create:     (*client.Client).CreateWebhook,
		get:        (*client.Client).Webhook,
		put:        (*client.Client).PutWebhook,
		remove:     (*client.Client).DeleteWebhook,
		complete:   giveSecret,
	}
}

func webhookSettings() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"url": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{isWebhookURL, stringvalidator.LengthAtMost(maxWebhookURL)},
			Description: "URL that receives the events. The state contains it, so put no credential into it.",
		},
		"events": schema.SetAttribute{
			ElementType: types.StringType, Optional: true,
			Validators:  []validator.Set{setvalidator.SizeAtLeast(1)},
			Description: "Events to send, such as alert_fired or dead; * for all. Default: the events of alerts and webhooks.",
		},
		"queues": schema.SetAttribute{
			ElementType: types.StringType, Optional: true,
			Validators:  []validator.Set{setvalidator.SizeBetween(1, maxWebhookQueues)},
			Description: "Patterns of the queues to send events of, such as mail-*. Default: all queues.",
		},
		"secret_overlap": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultSecretOverlap),
			PlanModifiers: []planmodifier.String{alike(sameDuration)},
			Validators:    []validator.String{isDurationWithin(0, maxSecretOverlap)},
			Description:   "Time during which deliveries carry a second signature with the old secret: at most 720h. Default: 24h.",
		},
		"enabled": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			Description: "Whether events are sent. Default: true.",
		},
		"retry_limit": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(defaultRetryLimit),
			Validators:  []validator.Int64{int64validator.Between(0, maxWebhookRetries)},
			Description: "Number of retries of a failed delivery: 0 to 20. Default: 3.",
		},
		"secret_wo": schema.StringAttribute{
			Required: true, Sensitive: true, WriteOnly: true,
			Validators:  []validator.String{stringvalidator.LengthBetween(minWebhookSecret, maxWebhookSecret)},
			Description: "Secret that signs deliveries, write-only: 16 to 256 bytes. It is read when the webhook is created and when secret_wo_version changes.",
		},
		"secret_wo_version": schema.Int64Attribute{
			Required:    true,
			Description: "Version of the secret. A new value makes the secret in secret_wo replace the present one.",
		},
	}
}

func (m *webhookModel) request(ctx context.Context, to *diag.Diagnostics) api.WebhookRequest {
	req := api.WebhookRequest{URL: m.URL.ValueString(), Enabled: m.Enabled.ValueBoolPointer(), RetryLimit: given(m.RetryLimit)}
	req.SecretOverlap = api.Duration(m.SecretOverlap.ValueString())
	to.Append(m.Events.ElementsAs(ctx, &req.Events, false)...)
	to.Append(m.Queues.ElementsAs(ctx, &req.Queues, false)...)
	return req
}

// giveSecret adds the secret to a request that must set it. An imported webhook has no
// version of the secret yet and gets the secret, because the server does not say which
// secret it has.
func giveSecret(ctx context.Context, config tfsdk.Config, prior, plan *webhookModel, req *api.WebhookRequest, to *diag.Diagnostics) {
	if prior != nil && prior.SecretWOVersion.Equal(plan.SecretWOVersion) {
		return
	}
	var secret types.String
	to.Append(config.GetAttribute(ctx, path.Root("secret_wo"), &secret)...)
	req.Secret = secret.ValueString()
}

func (m *webhookModel) observe(ctx context.Context, w api.Webhook, to *diag.Diagnostics) {
	m.observed(w.ID, w.Version)
	m.URL, m.Enabled, m.RetryLimit = types.StringValue(w.URL), types.BoolValue(w.Enabled), types.Int64Value(int64(w.RetryLimit))
	m.SecretOverlap = alike(sameDuration).observe(m.SecretOverlap, string(w.SecretOverlap))
	m.Events, m.Queues = someOf(ctx, w.Events, to), someOf(ctx, w.Queues, to)
}

// someOf makes a set of words, or null for no words.
func someOf(ctx context.Context, words []string, to *diag.Diagnostics) types.Set {
	if len(words) == 0 {
		return types.SetNull(types.StringType)
	}
	set, diags := types.SetValueFrom(ctx, types.StringType, words)
	to.Append(diags...)
	return set
}
