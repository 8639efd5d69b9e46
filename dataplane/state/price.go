package state

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// prices holds the prices of the namespace and those shipped with the binary. A price of the namespace wins.
type prices struct {
	own, shipped *billing.Prices
}

func newPrices(own, shipped []*Resource) prices {
	return prices{own: indexPrices(own), shipped: indexPrices(shipped)}
}

func indexPrices(list []*Resource) *billing.Prices {
	if len(list) == 0 {
		return nil
	}
	all := make([]billing.Price, len(list))
	for i, r := range list {
		all[i] = r.Price.Billing()
	}
	return billing.NewPrices(all)
}

// Billing converts the price to the type that billing computes with.
func (p *Price) Billing() billing.Price {
	return billing.Price{
		Provider: p.GetProvider(), Model: p.GetModel(), OverInput: p.GetOverInputTokens(),
		Input: money.Nano(p.GetInputNanoUsd()), Output: money.Nano(p.GetOutputNanoUsd()),
		CacheCreation: money.Nano(p.GetCacheCreationNanoUsd()), CacheRead: money.Nano(p.GetCacheReadNanoUsd()),
	}
}

// HasPrices reports whether any price is known.
func (b *ResourceIndex) HasPrices() bool {
	return b != nil && (!b.prices.own.Empty() || !b.prices.shipped.Empty())
}

// PriceOf returns the price of a use of a provider's model, or false if none matches; see
// billing.Prices.Match. The shipped prices are used only if no price of the namespace matches.
func (b *ResourceIndex) PriceOf(provider, model string, t billing.Tokens) (billing.Price, bool) {
	if b == nil {
		return billing.Price{}, false
	}
	if p, ok := b.prices.own.Match(provider, model, t); ok {
		return p, true
	}
	return b.prices.shipped.Match(provider, model, t)
}

// KnowsModel reports whether a model has a price, from any provider.
func (b *ResourceIndex) KnowsModel(model string) bool {
	return b != nil && (b.prices.own.Knows(model) || b.prices.shipped.Knows(model))
}

// CeilingPrice returns the highest known price of each kind of token.
func (b *ResourceIndex) CeilingPrice() billing.Price {
	if b == nil {
		return billing.Price{}
	}
	own, shipped := b.prices.own.Ceiling(), b.prices.shipped.Ceiling()
	return billing.Price{
		Input: max(own.Input, shipped.Input), Output: max(own.Output, shipped.Output),
		CacheCreation: max(own.CacheCreation, shipped.CacheCreation), CacheRead: max(own.CacheRead, shipped.CacheRead),
	}
}

// SetPriceBook replaces all shipped prices by copies of those in list, the prices of one version of the price
// book. It adds no event to the feed, because nobody has declared anything.
func (tx *Tx) SetPriceBook(version uint32, list []*Resource) error {
	names := make(map[string]bool, len(list))
	for _, r := range list {
		if err := checkResource(r); err != nil {
			return tx.fail(fmt.Errorf("shipped price %q: %w", r.Name, err))
		}
		if r.Kind != ResourceKind_RESOURCE_KIND_SHIPPED_PRICE {
			return tx.fail(fmt.Errorf("shipped price %q is of kind %d", r.Name, r.Kind))
		}
		names[r.Name] = true
		r = proto.Clone(r).(*Resource)
		r.Version, r.CreatedNs = uint64(version), tx.ClockNs()
		if err := put(tx.batch, appendResourceKey(nil, r.Kind, r.Name), r); err != nil {
			return tx.fail(fmt.Errorf("put shipped price %q: %w", r.Name, err))
		}
		tx.s.resources[resourceName{r.Kind, r.Name}] = r
	}
	for _, was := range tx.ResourceIndex().Resources(ResourceKind_RESOURCE_KIND_SHIPPED_PRICE) {
		if names[was.Name] {
			continue
		}
		if err := tx.batch.Delete(appendResourceKey(nil, was.Kind, was.Name), nil); err != nil {
			return tx.fail(fmt.Errorf("delete shipped price %q: %w", was.Name, err))
		}
		delete(tx.s.resources, resourceName{was.Kind, was.Name})
	}
	tx.resourceIndex, tx.resourcesPut = nil, true
	tx.head.PriceBook = version
	return nil
}
