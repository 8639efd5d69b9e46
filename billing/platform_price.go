package billing

import (
	"errors"
	"fmt"

	"github.com/corvo/corvo/billing/money"
)

// PlatformPrice is what the cloud charges for the quantity of a meter that an organisation uses in a month.
type PlatformPrice struct {
	Meter    string `json:"meter"`              // name of a meter
	Per      int64  `json:"per"`                // units of the meter that a tier's price is for
	Included int64  `json:"included,omitempty"` // units of each month that cost nothing
	Tiers    []Tier `json:"tiers"`              // graduated: each price is for the units of its tier only
}

// Tier is a range of the quantity of a month with one price.
type Tier struct {
	UpTo  int64      `json:"up_to,omitempty"` // end of the tier, with the included quantity; only the last tier has none
	Price money.Nano `json:"usd"`
}

// MaxTiers is the largest number of tiers of a price.
const MaxTiers = 20

// MeterNamed returns the meter with a name. It returns false if there is none.
func MeterNamed(name string) (Meter, bool) {
	for _, d := range Meters {
		if d.Known() && d.Name == name {
			return d.Meter, true
		}
	}
	return 0, false
}

// check returns what is wrong with the price, or nil. The cost of model calls has no platform price, because its unit is
// money.
func (p PlatformPrice) check() error {
	switch m, known := MeterNamed(p.Meter); {
	case !known:
		return fmt.Errorf("there is no meter %q", p.Meter)
	case m == Cost:
		return errors.New("cost_usd is money already: it has no price")
	case p.Per <= 0:
		return fmt.Errorf("the price of %s is for %d units: use 1 or more", p.Meter, p.Per)
	case p.Included < 0:
		return fmt.Errorf("the price of %s includes %d units: use 0 or more", p.Meter, p.Included)
	case len(p.Tiers) == 0 || len(p.Tiers) > MaxTiers:
		return fmt.Errorf("the price of %s has %d tiers: it takes 1 to %d", p.Meter, len(p.Tiers), MaxTiers)
	}
	after := p.Included
	for i, t := range p.Tiers {
		last := i == len(p.Tiers)-1
		switch {
		case t.Price < 0:
			return fmt.Errorf("tier %d of %s has a negative price", i+1, p.Meter)
		case last != (t.UpTo == 0):
			return fmt.Errorf("tier %d of %s ends at %d units: every tier but the last has an end", i+1, p.Meter, t.UpTo)
		case !last && t.UpTo <= after:
			return fmt.Errorf("tier %d of %s ends at %d units, and begins at %d", i+1, p.Meter, t.UpTo, after)
		}
		after = t.UpTo
	}
	return nil
}

// fill calls add for each part of quantity that lies in one tier, when position units of the month were used before. Tier
// 0 is the included quantity.
func (p PlatformPrice) fill(position, quantity money.Count, add func(tier int, price money.Nano, part money.Count)) {
	for tier := range len(p.Tiers) + 1 {
		end, price := money.CountOf(p.Included), money.Nano(0)
		part := quantity
		if tier > 0 {
			end, price = money.CountOf(p.Tiers[tier-1].UpTo), p.Tiers[tier-1].Price
		}
		if tier < len(p.Tiers) {
			room := end.Minus(position)
			if room.Compare(money.Count{}) <= 0 {
				continue
			}
			if room.Compare(part) < 0 {
				part = room
			}
		}
		if part == (money.Count{}) {
			return
		}
		add(tier, price, part)
		position, quantity = position.Add(part), quantity.Minus(part)
	}
}
