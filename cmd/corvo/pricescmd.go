package main

import (
	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

var prices = resource[api.PriceRequest, api.Price]{
	use: "prices", short: "Prices: what models cost, in dollars for a million tokens", one: "price", many: "prices, those that came with the server included", arg: "PRICE",
	list: (*client.Client).Prices, get: (*client.Client).Price, create: (*client.Client).CreatePrice,
	put: (*client.Client).PutPrice, remove: (*client.Client).DeletePrice,
	version: func(p *api.Price) int64 { return p.Version },
	prefix:  "price_", makes: "MODEL",
	begin: func(req *api.PriceRequest, arg string) error {
		req.Model = arg
		return nil
	},
	flags: []edit[api.PriceRequest]{
		set("provider", "whose model it is (default whoever's)", words, func(r *api.PriceRequest) *string { return &r.Provider }),
		set("over-input-tokens", "only of reports with more input than that", tokens, func(r *api.PriceRequest) *int64 { return &r.OverInputTokens }),
		option("input-usd-per-million", "of input", dollars, func(r *api.PriceRequest) **money.Nano { return &r.InputUSDPerMillion }),
		option("output-usd-per-million", "of output", dollars, func(r *api.PriceRequest) **money.Nano { return &r.OutputUSDPerMillion }),
		option("cache-creation-usd-per-million", "of input that is written to a cache (default that of input)", dollars, func(r *api.PriceRequest) **money.Nano { return &r.CacheCreationUSDPerMill }),
		option("cache-read-usd-per-million", "of input that is read from a cache (default that of input)", dollars, func(r *api.PriceRequest) **money.Nano { return &r.CacheReadUSDPerMillion }),
	},
	renames: []edit[api.PriceRequest]{
		set("model", "which model; a * at its end stands for any ending", words, func(r *api.PriceRequest) *string { return &r.Model }),
	},
	columns: []column[api.Price]{
		{"MODEL", func(p api.Price) string { return p.Model }},
		{"PROVIDER", func(p api.Price) string { return p.Provider }},
		{"OVER TOKENS", func(p api.Price) string { return limit(p.OverInputTokens) }},
		{"INPUT USD", func(p api.Price) string { return usd(p.InputUSDPerMillion) }},
		{"OUTPUT USD", func(p api.Price) string { return usd(p.OutputUSDPerMillion) }},
		{"CACHE CREATION USD", func(p api.Price) string { return usd(p.CacheCreationUSDPerMill) }},
		{"CACHE READ USD", func(p api.Price) string { return usd(p.CacheReadUSDPerMillion) }},
		{"ID", func(p api.Price) string { return p.ID }},
	},
	details: []column[api.Price]{
		{"SOURCE", func(p api.Price) string { return p.Source }},
		{"CREATED", func(p api.Price) string { return clock(p.CreatedAt) }},
	},
}

func newPrices() *cobra.Command { return prices.command() }
