package main

import (
	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/billing/money"
)

var prices = resource[api.PriceRequest, api.Price]{
	use: "prices", short: "Manage model prices, in dollars for a million tokens", one: "price", many: "prices, including the built-in ones", arg: "PRICE",
	list: (*client.Client).Prices, get: (*client.Client).Price, create: (*client.Client).CreatePrice,
	put: (*client.Client).PutPrice, remove: (*client.Client).DeletePrice,
	version: func(p *api.Price) int64 { return p.Version },
	prefix:  "price_", makes: "MODEL",
	begin: func(req *api.PriceRequest, arg string) error {
		req.Model = arg
		return nil
	},
	flags: []edit[api.PriceRequest]{
		set("provider", "provider of the model (default any)", words, func(r *api.PriceRequest) *string { return &r.Provider }),
		set("over-input-tokens", "input tokens above which the price applies", tokens, func(r *api.PriceRequest) *int64 { return &r.OverInputTokens }),
		option("input-usd-per-million", "price of input", dollars, func(r *api.PriceRequest) **money.Nano { return &r.InputUSDPerMillion }),
		option("output-usd-per-million", "price of output", dollars, func(r *api.PriceRequest) **money.Nano { return &r.OutputUSDPerMillion }),
		option("cache-creation-usd-per-million", "price of input written to a cache (default: the input price)", dollars, func(r *api.PriceRequest) **money.Nano { return &r.CacheCreationUSDPerMill }),
		option("cache-read-usd-per-million", "price of input read from a cache (default: the input price)", dollars, func(r *api.PriceRequest) **money.Nano { return &r.CacheReadUSDPerMillion }),
	},
	renames: []edit[api.PriceRequest]{
		set("model", "name of the model; a * at its end matches any ending", words, func(r *api.PriceRequest) *string { return &r.Model }),
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
