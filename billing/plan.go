package billing

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// Plan is the name of what an organisation pays for.
type Plan string

// The plans. An organisation without a plan has Free.
const (
	Free       Plan = "free"
	PayAsYouGo Plan = "payg"
	Committed  Plan = "committed"
)

// Plans lists the plans, the lowest first.
var Plans = []Plan{Free, PayAsYouGo, Committed}

// Known reports whether the plan is one of Plans.
func (p Plan) Known() bool { return slices.Contains(Plans, p) }

// Below reports whether p is a lower plan than q.
func (p Plan) Below(q Plan) bool { return slices.Index(Plans, p) < slices.Index(Plans, q) }

// PlanVersion is what a plan charges from an hour on, until its next version begins. It is never changed, because bills
// name it.
type PlanVersion struct {
	Plan     Plan            `json:"plan"`
	Version  string          `json:"price_version"`
	BeginsAt time.Time       `json:"begins_at"` // a whole hour
	Fee      money.Nano      `json:"monthly_fee_usd"`
	Minimum  money.Nano      `json:"minimum_usd"`      // of a month's usage after the discount
	Discount int64           `json:"discount_percent"` // on usage
	Prices   []PlatformPrice `json:"prices"`
}

// check returns what is wrong with the version, or nil.
func (v PlanVersion) check() error {
	switch {
	case !v.Plan.Known():
		return fmt.Errorf("there is no plan %q", v.Plan)
	case !v.BeginsAt.Equal(v.BeginsAt.Truncate(time.Hour)):
		return fmt.Errorf("%v is no whole hour", v.BeginsAt)
	case v.Fee < 0 || v.Minimum < 0:
		return errors.New("a fee or a minimum is negative")
	case v.Discount < 0 || v.Discount > 100:
		return fmt.Errorf("a discount of %d percent: it takes 0 to 100", v.Discount)
	}
	return checkPrices(v.Prices)
}

// checkPrices returns what is wrong with the prices, or nil.
func checkPrices(prices []PlatformPrice) error {
	seen := map[string]bool{}
	for _, p := range prices {
		if err := p.check(); err != nil {
			return err
		}
		if seen[p.Meter] {
			return fmt.Errorf("%s has two prices", p.Meter)
		}
		seen[p.Meter] = true
	}
	return nil
}

// Overrides replace parts of a plan's prices for one organisation. A part that is nil stays the plan's.
type Overrides struct {
	Fee      *money.Nano `json:"monthly_fee_usd,omitempty"`
	Minimum  *money.Nano `json:"minimum_usd,omitempty"`
	Discount *int64      `json:"discount_percent,omitempty"`
	// Prices replace the plan's prices of their meters.
	Prices []PlatformPrice `json:"prices,omitempty"`
}

// overridden separates the version of a plan from the first hour of an organisation's overrides.
const overridden = "@"

// with returns the version with overrides that began at an hour.
func (v PlanVersion) with(o *Overrides, fromNs int64) PlanVersion {
	if o == nil {
		return v
	}
	v.Version += overridden + time.Unix(0, fromNs).UTC().Format("2006-01-02T15Z")
	if o.Fee != nil {
		v.Fee = *o.Fee
	}
	if o.Minimum != nil {
		v.Minimum = *o.Minimum
	}
	if o.Discount != nil {
		v.Discount = *o.Discount
	}
	kept := slices.DeleteFunc(slices.Clone(v.Prices), func(p PlatformPrice) bool {
		return slices.ContainsFunc(o.Prices, func(own PlatformPrice) bool { return own.Meter == p.Meter })
	})
	v.Prices = append(kept, o.Prices...)
	return v
}

// ParseOverrides parses the JSON form of overrides; no text = none. It refuses unknown fields and everything that a plan's
// version may not have.
func ParseOverrides(text []byte) (*Overrides, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var o Overrides
	if err := strictly(text, &o); err != nil {
		return nil, err
	}
	if err := (PlanVersion{Plan: Free}).with(&o, 0).check(); err != nil {
		return nil, err
	}
	return &o, nil
}

func strictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// PlanChange is a row of the history of an organisation's plan.
type PlanChange struct {
	FromNs    int64 // a whole hour, in Unix nanoseconds
	Plan      Plan
	Overrides *Overrides // nil = none
}

// PlanAt returns the last of an organisation's changes, in the order of their hours, that began at a time or before. Without
// one, it returns the plan Free from 1970 on.
func PlanAt(history []PlanChange, ns int64) PlanChange {
	at := PlanChange{Plan: Free}
	for _, c := range history {
		if c.FromNs <= ns {
			at = c
		}
	}
	return at
}

// PlanBegins returns the hour from which a change of plan holds that was made at a time. A higher plan, and other overrides
// of the same plan, hold from the next hour on. A lower plan holds from the next month on.
func PlanBegins(was, becomes Plan, madeNs int64) (ns int64) {
	made := time.Unix(0, madeNs).UTC()
	if becomes.Below(was) {
		_, end := Month.Window(made, time.UTC)
		return end.UnixNano()
	}
	return made.Truncate(time.Hour).Add(time.Hour).UnixNano()
}

// PlanBook has all versions of all plans. It is immutable.
type PlanBook struct {
	versions map[Plan][]PlanVersion // in the order of their beginning
}

//go:embed plans.json
var shippedPlans []byte

// ShippedPlans returns the plans that come with the binary.
func ShippedPlans() (*PlanBook, error) { return ParsePlanBook(shippedPlans) }

// ParsePlanBook parses the JSON form of a book of plans. It refuses unknown fields, invalid prices, two versions with the
// same name, versions that are not in the order of their beginning, and a plan without a version from 1970 on.
func ParsePlanBook(text []byte) (*PlanBook, error) {
	var book struct {
		Plans []PlanVersion `json:"plans"`
	}
	if err := strictly(text, &book); err != nil {
		return nil, fmt.Errorf("read the plans: %w", err)
	}
	b := &PlanBook{versions: map[Plan][]PlanVersion{}}
	names := map[string]bool{}
	for _, v := range book.Plans {
		if err := v.check(); err != nil {
			return nil, fmt.Errorf("read the plans: price version %q: %w", v.Version, err)
		}
		of := b.versions[v.Plan]
		switch {
		case v.Version == "" || strings.Contains(v.Version, overridden):
			return nil, fmt.Errorf("read the plans: %q is no price version: use a name without %s", v.Version, overridden)
		case names[v.Version]:
			return nil, fmt.Errorf("read the plans: there are two price versions %s", v.Version)
		case len(of) == 0 && v.BeginsAt.UnixNano() != 0:
			return nil, fmt.Errorf("read the plans: %s begins at %v: the first version of a plan begins in 1970", v.Version, v.BeginsAt)
		case len(of) > 0 && !of[len(of)-1].BeginsAt.Before(v.BeginsAt):
			return nil, fmt.Errorf("read the plans: %s begins before the version above it", v.Version)
		}
		names[v.Version] = true
		b.versions[v.Plan] = append(of, v)
	}
	for _, p := range Plans {
		if len(b.versions[p]) == 0 {
			return nil, fmt.Errorf("read the plans: there is no version of %s", p)
		}
	}
	return b, nil
}

// Versions lists the versions of a plan in the order of their beginning.
func (b *PlanBook) Versions(p Plan) []PlanVersion { return slices.Clone(b.versions[p]) }

// At returns the version that an organisation's change of plan stands for at a time, with its overrides.
func (b *PlanBook) At(c PlanChange, ns int64) (PlanVersion, error) {
	for _, v := range slices.Backward(b.versions[c.Plan]) {
		if v.BeginsAt.UnixNano() <= ns {
			return v.with(c.Overrides, c.FromNs), nil
		}
	}
	return PlanVersion{}, fmt.Errorf("there is no version of the plan %q at %v", c.Plan, time.Unix(0, ns).UTC())
}
