package billing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// HourUsage is a quantity of a meter that a namespace used in an hour. Several may have the same key.
type HourUsage struct {
	HourNs          int64 // start of the hour in Unix nanoseconds
	Namespace       string
	Meter           Meter
	Provider, Model string // only Cost needs them
	Quantity        money.Count
}

// Rating is the input of Rate.
type Rating struct {
	Month   time.Time // any moment of it
	Usage   []HourUsage
	History []PlanChange // in the order of their hours
	Book    *PlanBook
}

// stretch is a part of the month in which one price version holds.
type stretch struct {
	fromNs, toNs int64
	PlanVersion
	prices map[Meter]PlatformPrice
}

// lineKey identifies a line of usage within a bill.
type lineKey struct {
	version   int // position of the price version among those of the month
	meter     Meter
	namespace string
	tier      int
}

// Rate computes the bill of an organisation for a calendar month in UTC. Meters without a price have no line. The order of
// the rows, and the division of a quantity among rows with the same key, do not change the bill. The error wraps
// ErrUnratable if a row or a plan breaks a rule, and ErrOverflow if a quantity, an amount or a sum does not fit.
func Rate(r Rating) (Bill, error) {
	var b Bill
	b.Start, b.End = Month.Window(r.Month, time.UTC)
	if err := r.check(b.Start.UnixNano(), b.End.UnixNano()); err != nil {
		return Bill{}, err
	}
	parts, err := r.stretches(b.Start.UnixNano(), b.End.UnixNano())
	if err != nil {
		return Bill{}, err
	}
	versions := versionsOf(parts)
	used, err := r.fill(parts, versions)
	if err != nil {
		return Bill{}, err
	}
	hours := int64(b.End.Sub(b.Start) / time.Hour)
	for i, version := range versions {
		if err := b.addVersion(i, version, used, held(parts, version.Version), hours); err != nil {
			return Bill{}, err
		}
	}
	if b.LLMCost, err = r.llmCost(); err != nil {
		return Bill{}, err
	}
	return b, b.finish()
}

// check refuses rows outside the month, unknown meters, negative quantities and a history that is not in order.
func (r Rating) check(startNs, endNs int64) error {
	for _, u := range r.Usage {
		switch {
		case !u.Meter.Known():
			return fmt.Errorf("%w: meter %d is not known", ErrUnratable, u.Meter)
		case u.Quantity.Negative():
			return fmt.Errorf("%w: a quantity of %v is negative", ErrUnratable, u.Meter)
		case u.HourNs < startNs || u.HourNs >= endNs || u.HourNs%int64(time.Hour) != 0:
			return fmt.Errorf("%w: %v is no hour of the month", ErrUnratable, time.Unix(0, u.HourNs).UTC())
		}
	}
	for i, c := range r.History {
		if c.FromNs%int64(time.Hour) != 0 || i > 0 && c.FromNs <= r.History[i-1].FromNs {
			return fmt.Errorf("%w: the plan from %v is not in the order of whole hours", ErrUnratable, time.Unix(0, c.FromNs).UTC())
		}
	}
	return nil
}

// stretches divides the month where the plan changes or a new version of a plan begins.
func (r Rating) stretches(startNs, endNs int64) (parts []stretch, err error) {
	cuts := []int64{startNs}
	for _, c := range r.History {
		cuts = append(cuts, c.FromNs)
	}
	for _, versions := range r.Book.versions {
		for _, v := range versions {
			cuts = append(cuts, v.BeginsAt.UnixNano())
		}
	}
	cuts = slices.DeleteFunc(cuts, func(ns int64) bool { return ns < startNs || ns >= endNs })
	slices.Sort(cuts)
	cuts = append(slices.Compact(cuts), endNs)
	for i, fromNs := range cuts[:len(cuts)-1] {
		version, err := r.Book.At(PlanAt(r.History, fromNs), fromNs)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnratable, err)
		}
		part := stretch{fromNs: fromNs, toNs: cuts[i+1], PlanVersion: version, prices: map[Meter]PlatformPrice{}}
		for _, p := range version.Prices {
			m, _ := MeterNamed(p.Meter)
			part.prices[m] = p
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// versionsOf lists the price versions of the month in the order in which they begin.
func versionsOf(parts []stretch) (all []PlanVersion) {
	for _, part := range parts {
		if position(all, part.Version) < 0 {
			all = append(all, part.PlanVersion)
		}
	}
	return all
}

func position(versions []PlanVersion, name string) int {
	return slices.IndexFunc(versions, func(v PlanVersion) bool { return v.Version == name })
}

// held returns the number of hours of the month in which a price version holds.
func held(parts []stretch, version string) (hours int64) {
	for _, part := range parts {
		if part.Version == version {
			hours += (part.toNs - part.fromNs) / int64(time.Hour)
		}
	}
	return hours
}

// fill divides the usage among lines, each with its quantity and price.
func (r Rating) fill(parts []stretch, versions []PlanVersion) (map[lineKey]Line, error) {
	rows := slices.Clone(r.Usage)
	slices.SortFunc(rows, func(a, b HourUsage) int {
		return cmp.Or(cmp.Compare(a.HourNs, b.HourNs), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Meter, b.Meter))
	})
	lines := map[lineKey]Line{}
	var month [metersEnd]money.Count // used so far
	at := 0
	for _, u := range rows {
		for u.HourNs >= parts[at].toNs {
			at++
		}
		before := month[u.Meter]
		after, err := before.AddNatural(u.Quantity)
		if err != nil {
			return nil, tooLarge("the quantity of " + u.Meter.String())
		}
		month[u.Meter] = after
		price, ok := parts[at].prices[u.Meter]
		if !ok {
			continue
		}
		key := lineKey{version: position(versions, parts[at].Version), meter: u.Meter, namespace: u.Namespace}
		price.fill(before, u.Quantity, func(tier int, unitPrice money.Nano, part money.Count) {
			key.tier = tier
			line := lines[key]
			line.Item, line.Namespace, line.PriceVersion, line.Tier = u.Meter.String(), u.Namespace, parts[at].Version, tier
			line.Per, line.UnitPrice = price.Per, unitPrice
			line.Quantity = line.Quantity.Add(part) // fits, because the month's quantity does
			lines[key] = line
		})
	}
	return lines, nil
}

// addVersion adds the lines of a price version: its usage in the order of meters, namespaces and tiers, then discount,
// minimum and fee. The version holds for some of the month's hours.
func (b *Bill) addVersion(i int, v PlanVersion, used map[lineKey]Line, held, hours int64) error {
	var keys []lineKey
	for key := range used {
		if key.version == i {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b lineKey) int {
		return cmp.Or(cmp.Compare(a.meter, b.meter), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.tier, b.tier))
	})
	var usage money.Nano
	add := func(l Line) error {
		amount, err := b.add(l)
		if err == nil {
			if usage, err = usage.Add(amount); err != nil {
				err = tooLarge("the usage of price version " + v.Version)
			}
		}
		return err
	}
	for _, key := range keys {
		if err := add(used[key]); err != nil {
			return err
		}
	}
	if v.Discount > 0 && usage > 0 {
		err := add(Line{Item: ItemDiscount, PriceVersion: v.Version, Quantity: money.CountOf(v.Discount), Per: 100, UnitPrice: -usage})
		if err != nil {
			return err
		}
	}
	minimum, err := money.CountOf(held).Price(v.Minimum, hours)
	if err != nil {
		return tooLarge("the minimum")
	}
	if usage < minimum {
		if _, err := b.add(Line{Item: ItemMinimum, PriceVersion: v.Version, Quantity: money.CountOf(1), Per: 1, UnitPrice: minimum - usage}); err != nil {
			return err
		}
	}
	if v.Fee > 0 {
		_, err = b.add(Line{Item: ItemFee, PriceVersion: v.Version, Quantity: money.CountOf(held), Per: hours, UnitPrice: v.Fee})
	}
	return err
}

// llmCost adds up the cost of model calls.
func (r Rating) llmCost() (c LLMCost, err error) {
	var total money.Count
	byModel := map[ModelCost]money.Count{}
	for _, u := range r.Usage {
		if u.Meter != Cost {
			continue
		}
		if total, err = total.AddNatural(u.Quantity); err != nil {
			return c, tooLarge("the cost of model calls")
		}
		model := ModelCost{Provider: u.Provider, Model: u.Model}
		byModel[model] = byModel[model].Add(u.Quantity) // fits, because the total does
	}
	c.Total = money.Total(total)
	for model, cost := range byModel {
		model.Cost = money.Total(cost)
		c.ByModel = append(c.ByModel, model)
	}
	slices.SortFunc(c.ByModel, func(a, b ModelCost) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return c, nil
}

// tooLarge returns the error for something that does not fit.
func tooLarge(what string) error { return fmt.Errorf("%w: %s is too large", ErrOverflow, what) }
