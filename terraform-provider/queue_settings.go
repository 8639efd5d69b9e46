package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
)

// queueRetentionModel is the attribute retention of corvo_queue; nil = null.
type queueRetentionModel struct {
	Completed types.String `tfsdk:"completed"`
	Dead      types.String `tfsdk:"dead"`
	Cancelled types.String `tfsdk:"cancelled"`
}

func queueRetentionAttribute() schema.Attribute {
	kept := func(which string) schema.Attribute {
		return schema.StringAttribute{
			Optional: true, PlanModifiers: []planmodifier.String{alike(sameRetention)},
			Validators:  []validator.String{isRetention},
			Description: `Retention of ` + which + ` jobs: a duration like "24h", or "forever". Default: the namespace's.`,
		}
	}
	return schema.SingleNestedAttribute{
		Optional:    true,
		Description: "Retention of settled jobs. Default: the namespace's.",
		Attributes: map[string]schema.Attribute{
			"completed": kept("completed"),
			"dead":      kept("dead"),
			"cancelled": kept("cancelled"),
		},
	}
}

// observe converts the server's values for the state. An object without values means the
// same as no object, so the state keeps it.
func (m *queueRetentionModel) observe(r *api.QueueRetention) *queueRetentionModel {
	if r == nil && m == nil {
		return nil
	}
	var was queueRetentionModel
	if m != nil {
		was = *m
	}
	var now api.QueueRetention
	if r != nil {
		now = *r
	}
	return &queueRetentionModel{
		Completed: alike(sameRetention).observe(was.Completed, string(now.Completed)),
		Dead:      alike(sameRetention).observe(was.Dead, string(now.Dead)),
		Cancelled: alike(sameRetention).observe(was.Cancelled, string(now.Cancelled)),
	}
}

func (m *queueRetentionModel) request() *api.QueueRetention {
	if m == nil {
		return nil
	}
	return &api.QueueRetention{
		Completed: api.Duration(m.Completed.ValueString()),
		Dead:      api.Duration(m.Dead.ValueString()),
		Cancelled: api.Duration(m.Cancelled.ValueString()),
	}
}

// queueDefaultsModel is the attribute defaults of corvo_queue; nil = null.
type queueDefaultsModel struct {
	Priority           types.String `tfsdk:"priority"`
	MaxRetries         types.Int64  `tfsdk:"max_retries"`
	RetryBackoff       types.String `tfsdk:"retry_backoff"`
	RetryBaseDelay     types.String `tfsdk:"retry_base_delay"`
	RetryMaxDelay      types.String `tfsdk:"retry_max_delay"`
	RetryJitterPercent types.Int64  `tfsdk:"retry_jitter_percent"`
	ExpireAfter        types.String `tfsdk:"expire_after"`
}

// aPriority accepts the name of a priority.
var aPriority = stringvalidator.OneOf(string(api.Critical), string(api.High), string(api.Normal))

func queueDefaultsAttribute() schema.Attribute {
	lasting := []planmodifier.String{alike(sameDuration)}
	delay := []validator.String{isDurationWithin(0, maxRetryDelay)}
	return schema.SingleNestedAttribute{
		Optional:    true,
		Description: "Defaults of the queue's jobs. Omitted attributes take the namespace's defaults.",
		Attributes: map[string]schema.Attribute{
			"priority": schema.StringAttribute{
				Optional: true, Validators: []validator.String{aPriority},
				Description: "Priority: critical, high or normal.",
			},
			"max_retries": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(1, maxAttempts)},
				Description: "Limit on attempts, including the first: 1 to 1000.",
			},
			"retry_backoff": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.OneOf("none", "fixed", "linear", "exponential")},
				Description: "Growth of the retry delay: none, fixed, linear or exponential.",
			},
			"retry_base_delay": schema.StringAttribute{
				Optional: true, PlanModifiers: lasting, Validators: delay,
				Description: `Delay before the first retry, such as "5s".`,
			},
			"retry_max_delay": schema.StringAttribute{
				Optional: true, PlanModifiers: lasting, Validators: delay,
				Description: `Longest delay before a retry, such as "10m"; not shorter than retry_base_delay.`,
			},
			"retry_jitter_percent": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(0, maxJitterPercent)},
				Description: "Random share of a retry delay in percent: 0 to 100.",
			},
			"expire_after": schema.StringAttribute{
				Optional: true, PlanModifiers: lasting, Validators: []validator.String{isDurationWithin(minExpireAfter, maxExpireAfter)},
				Description: `Lifetime of a job, waiting and running, after which it is dead, such as "1h".`,
			},
		},
	}
}

// observe converts the server's values like queueRetentionModel.observe.
func (m *queueDefaultsModel) observe(d *api.QueueDefaults) *queueDefaultsModel {
	if d == nil && m == nil {
		return nil
	}
	var was queueDefaultsModel
	if m != nil {
		was = *m
	}
	var now api.QueueDefaults
	if d != nil {
		now = *d
	}
	return &queueDefaultsModel{
		Priority:           textOf(string(now.Priority)),
		MaxRetries:         numberOf(now.MaxRetries),
		RetryBackoff:       textOf(now.RetryBackoff),
		RetryBaseDelay:     alike(sameDuration).observe(was.RetryBaseDelay, durationText(now.RetryBaseDelay)),
		RetryMaxDelay:      alike(sameDuration).observe(was.RetryMaxDelay, durationText(now.RetryMaxDelay)),
		RetryJitterPercent: numberOf(now.RetryJitterPercent),
		ExpireAfter:        alike(sameDuration).observe(was.ExpireAfter, string(now.ExpireAfter)),
	}
}

func (m *queueDefaultsModel) request() *api.QueueDefaults {
	if m == nil {
		return nil
	}
	return &api.QueueDefaults{
		Priority:           api.Priority(m.Priority.ValueString()),
		MaxRetries:         given(m.MaxRetries),
		RetryBackoff:       m.RetryBackoff.ValueString(),
		RetryBaseDelay:     givenDuration(m.RetryBaseDelay),
		RetryMaxDelay:      givenDuration(m.RetryMaxDelay),
		RetryJitterPercent: given(m.RetryJitterPercent),
		ExpireAfter:        api.Duration(m.ExpireAfter.ValueString()),
	}
}

// givenDuration returns a configured duration, which may be "0s", or nil for an omitted one.
func givenDuration(text types.String) *api.Duration {
	if text.IsNull() {
		return nil
	}
	d := api.Duration(text.ValueString())
	return &d
}

func durationText(d *api.Duration) string {
	if d == nil {
		return ""
	}
	return string(*d)
}

// textOf converts a text of the server for the state; an empty text becomes null.
func textOf(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

// numberOf converts a number of the server for the state; nil becomes null.
func numberOf(n *int) types.Int64 {
	if n == nil {
		return types.Int64Null()
	}
	return types.Int64Value(int64(*n))
}
