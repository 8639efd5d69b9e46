package op

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/dataplane/job"
	"github.com/corvo/corvo/dataplane/state"
)

// SeedPrices replaces an older shipped price book in the store and drops prices that the new book no longer
// has. It does nothing if the store has this book or a newer one. The namespace's own prices and past charges
// stay as they are.

// Validate refuses an op that no state could accept.
func (o *SeedPrices) Validate() error {
	var p problems
	o.Meta.check(&p)
	if o.Version == 0 {
		p.add("version", errors.New("is missing; books are numbered from 1"))
	}
	p.length("prices", len(o.Prices), job.MaxPrices)
	if len(o.Prices) <= job.MaxPrices {
		seen := make(map[string]bool, len(o.Prices))
		for i, r := range o.Prices {
			field := fmt.Sprintf("prices[%d].", i)
			p.add(field+"name", checkResourceName(r.GetName()))
			p.resourceID(field+"id", r.GetId())
			switch {
			case r.GetKind() != state.ResourceKind_RESOURCE_KIND_SHIPPED_PRICE:
				p.add(field+"kind", fmt.Errorf("%d is not that of a shipped price", r.GetKind()))
			case seen[r.GetName()]:
				p.add(field+"name", fmt.Errorf("%q is there twice", r.GetName()))
			}
			seen[r.GetName()] = true
			p.price(field, r.GetPrice())
		}
	}
	p.whole(o)
	return p.err()
}

// Apply stores the book. It refuses nothing.
func (o *SeedPrices) Apply(tx *state.Tx) (*SeedPricesResult, error) {
	if o.Version <= tx.Head().PriceBook {
		return &SeedPricesResult{}, nil
	}
	return &SeedPricesResult{}, tx.SetPriceBook(o.Version, o.Prices)
}
