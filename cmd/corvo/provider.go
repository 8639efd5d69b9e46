package main

import (
	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

var providers = resource[api.ProviderRequest, api.Provider]{
	use: "providers", short: "Manage model providers and their rate limits", one: "provider", many: "providers", arg: "PROVIDER",
	list: (*client.Client).Providers, get: (*client.Client).Provider, create: (*client.Client).CreateProvider,
	put: (*client.Client).PutProvider, remove: (*client.Client).DeleteProvider,
	version: func(p *api.Provider) int64 { return p.Version },
	begin: func(req *api.ProviderRequest, arg string) error {
		req.Name = arg
		return nil
	},
	flags: []edit[api.ProviderRequest]{
		set("rpm-limit", "limit on requests in a minute", tokens, func(r *api.ProviderRequest) *int64 { return &r.RPMLimit }),
		set("input-tpm-limit", "limit on input tokens in a minute", tokens, func(r *api.ProviderRequest) *int64 { return &r.InputTPMLimit }),
		set("output-tpm-limit", "limit on output tokens in a minute", tokens, func(r *api.ProviderRequest) *int64 { return &r.OutputTPMLimit }),
	},
	columns: []column[api.Provider]{
		{"PROVIDER", func(p api.Provider) string { return p.Name }},
		{"RPM LIMIT", func(p api.Provider) string { return limit(p.RPMLimit) }},
		{"INPUT TPM LIMIT", func(p api.Provider) string { return limit(p.InputTPMLimit) }},
		{"OUTPUT TPM LIMIT", func(p api.Provider) string { return limit(p.OutputTPMLimit) }},
		{"REQUESTS", func(p api.Provider) string { return count(p.RequestsLastMinute) }},
		{"INPUT TOKENS", func(p api.Provider) string { return count(p.InputTokensLastMinute) }},
		{"OUTPUT TOKENS", func(p api.Provider) string { return count(p.OutputTokensLastMinute) }},
		{"WAITING JOBS", func(p api.Provider) string { return count(p.WaitingJobs) }},
	},
	details: []column[api.Provider]{
		{"RESERVED INPUT TOKENS", func(p api.Provider) string { return count(p.ReservedInputTokens) }},
		{"RESERVED OUTPUT TOKENS", func(p api.Provider) string { return count(p.ReservedOutputTokens) }},
		{"CREATED", func(p api.Provider) string { return clock(p.CreatedAt) }},
	},
}

func newProviders() *cobra.Command { return providers.command() }
