package convert

import (
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/text"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// ShippedPrefix begins the ids of prices that came with the server.
const ShippedPrefix = "default:"

// model converts the provider, the model and the cost estimate of a job, as far as the request has them.
func model(f *Faults, r *api.EnqueueRequest, n *op.NewJob) {
	if name := providerName(f, r.Provider); name != "" {
		n.Opt().Provider = name
	}
	if r.Model != "" {
		n.Opt().Model = usageWord(f, "model", r.Model)
	}
	if cost := r.CostEstimateUSD; cost != nil && *cost != 0 {
		n.Opt().CostEstimateNanoUsd = dollars(f, "cost_estimate_usd", money.Nano(*cost))
	}
}

// usageWord checks the name of a provider or model.
func usageWord(f *Faults, field, said string) string {
	if err := job.CheckText(said, job.MaxUsageWord); err != nil {
		f.Invalid(field, "%v", err)
	}
	return said
}

// dollars checks the amount of a price or an estimate.
func dollars(f *Faults, field string, n money.Nano) int64 {
	if n < 0 || n > job.MaxMoney {
		f.Invalid(field, "is %s; it takes 0 to %s", n, money.Nano(job.MaxMoney))
		return 0
	}
	return int64(n)
}

// FromPrice converts a declared price. Cached tokens without a price of their own cost as much as input
// tokens. The op checks the provider, the model and over_input_tokens.
func FromPrice(f *Faults, r *api.PriceRequest) *op.PutResource {
	price := &state.Price{Provider: r.Provider, Model: r.Model, OverInputTokens: r.OverInputTokens}
	for _, each := range [...]struct {
		field    string
		said     *money.Nano
		into     *int64
		optional bool
	}{
		{"input_usd_per_million", r.InputUSDPerMillion, &price.InputNanoUsd, false},
		{"output_usd_per_million", r.OutputUSDPerMillion, &price.OutputNanoUsd, false},
		{"cache_creation_usd_per_million", r.CacheCreationUSDPerMill, &price.CacheCreationNanoUsd, true},
		{"cache_read_usd_per_million", r.CacheReadUSDPerMillion, &price.CacheReadNanoUsd, true},
	} {
		switch {
		case each.said != nil:
			*each.into = dollars(f, each.field, *each.said)
		case each.optional:
			*each.into = price.InputNanoUsd
		default:
			f.Invalid(each.field, "is missing; give the dollars that a million tokens cost, 0 for nothing")
		}
	}
	return &op.PutResource{Resource: &state.Resource{Price: price}}
}

// ToPrice converts a price to its API form.
func ToPrice(r *state.Resource) api.Price {
	p := r.GetPrice()
	out := api.Price{
		ID: r.Name, Source: api.PriceOwn, CreatedAt: api.TimeOf(time.Unix(0, r.CreatedNs)),
		Provider: p.GetProvider(), Model: p.GetModel(), OverInputTokens: p.GetOverInputTokens(),
		InputUSDPerMillion: money.Nano(p.GetInputNanoUsd()), OutputUSDPerMillion: money.Nano(p.GetOutputNanoUsd()),
		CacheCreationUSDPerMill: money.Nano(p.GetCacheCreationNanoUsd()), CacheReadUSDPerMillion: money.Nano(p.GetCacheReadNanoUsd()),
	}
	if r.Kind == state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE {
		out.ID, out.Source = ShippedPrefix+r.Name, api.PriceShipped
	}
	return out
}

// FromSettings converts the namespace's settings; an absent setting gets its default.
func FromSettings(f *Faults, s *api.Settings) *state.Settings {
	out := &state.Settings{Retention: retention(f, &s.Retention)}
	switch s.UnknownModel {
	case "", api.UnknownModelCeiling:
	case api.UnknownModelHold:
		out.UnknownModel = state.UnknownModel_UNKNOWN_MODEL_HOLD
	default:
		f.Invalid("unknown_model", "is %s; use %s or %s", text.Quote(s.UnknownModel), api.UnknownModelCeiling, api.UnknownModelHold)
	}
	return out
}

// ToSettings converts the namespace's settings to their API form. It fails if a newer version wrote a setting
// that this version does not know.
func ToSettings(s *state.Settings) (api.Settings, error) {
	r := s.GetRetention()
	out := api.Settings{Retention: api.QueueRetention{
		Completed: keptFor(r.GetCompletedMs()), Dead: keptFor(r.GetDeadMs()), Cancelled: keptFor(r.GetCancelledMs()),
	}}
	switch s.GetUnknownModel() {
	case state.UnknownModel_UNKNOWN_MODEL_CEILING:
		out.UnknownModel = api.UnknownModelCeiling
	case state.UnknownModel_UNKNOWN_MODEL_HOLD:
		out.UnknownModel = api.UnknownModelHold
	default:
		return out, fmt.Errorf("the setting %d of unknown models is unknown to this binary", s.GetUnknownModel())
	}
	return out, nil
}

// keptFor returns the time that settled jobs are kept. An ms of 0 means the default, a negative ms means for
// ever.
func keptFor(ms int64) api.Duration {
	switch {
	case ms == 0:
		return api.Duration(job.DefaultRetentionTime.String())
	case ms < 0:
		return api.Forever
	}
	return api.Duration((time.Duration(ms) * time.Millisecond).String())
}
