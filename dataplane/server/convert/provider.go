package convert

import (
	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/op"
	"github.com/corvo/corvo/dataplane/state"
)

// FromProvider converts the limits of a provider of models; 0 is no limit. The op checks the name, which the
// caller adds.
func FromProvider(f *Faults, b *api.ProviderRequest, _ *state.Resource, _ int64) *op.PutResource {
	p := &state.Provider{}
	for _, x := range [...]struct {
		field string
		limit int64
		to    *uint64
	}{
		{"rpm_limit", b.RPMLimit, &p.Requests},
		{"input_tpm_limit", b.InputTPMLimit, &p.InputTokens},
		{"output_tpm_limit", b.OutputTPMLimit, &p.OutputTokens},
	} {
		if x.limit < 0 || x.limit > job.MaxTokensPerMinute {
			f.Invalid(x.field, "is %d; it takes 0, for no limit, to %d", x.limit, job.MaxTokensPerMinute)
		}
		*x.to = uint64(max(x.limit, 0))
	}
	return &op.PutResource{Resource: &state.Resource{Provider: p}}
}

// ToProvider converts a provider to its API form, without its traffic.
func ToProvider(r *state.Resource) api.Provider {
	p := r.GetProvider()
	return api.Provider{
		Name: r.Name, CreatedAt: timeOf(r.CreatedNs),
		RPMLimit: int64(p.GetRequests()), InputTPMLimit: int64(p.GetInputTokens()), OutputTPMLimit: int64(p.GetOutputTokens()),
	}
}

// AddTraffic adds the traffic of one shard to p. It is called once for each shard.
func AddTraffic(p *api.Provider, t op.ProviderTraffic) {
	p.RequestsLastMinute += int64(t.Requests)
	p.InputTokensLastMinute += int64(t.InputTokens)
	p.OutputTokensLastMinute += int64(t.OutputTokens)
	p.ReservedInputTokens += int64(t.ReservedInputTokens)
	p.ReservedOutputTokens += int64(t.ReservedOutputTokens)
	p.WaitingJobs += int64(t.Waiting)
}

// providerName checks the provider that a job or a queue names; "" is none.
func providerName(f *Faults, name string) string {
	if name != "" {
		if err := job.CheckProviderName(name); err != nil {
			f.Invalid("provider", "%v", err)
		}
	}
	return name
}
