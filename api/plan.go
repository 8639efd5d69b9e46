package api

// PlanHistory is the plan of an organisation: what its bill is made with.
type PlanHistory struct {
	Plan string `json:"plan"`           // in force: free, payg or committed
	From *Time  `json:"from,omitempty"` // since when; absent = since the organisation exists
	// Charges are the prices of the plan in force, with the organisation's overrides.
	Charges PlanVersion `json:"charges"`
	// Changes are the changes of the plan in the order of their hours, those that have not begun too.
	Changes []PlanChange `json:"changes"`
}

// PlanChange is a change of the plan of an organisation.
type PlanChange struct {
	Plan      string         `json:"plan"`
	From      Time           `json:"from"` // a whole hour
	Overrides *PlanOverrides `json:"overrides,omitempty"`
	By        string         `json:"by"` // id of the token that made it
	At        Time           `json:"at"` // when it was made
}

// SetPlanRequest changes the plan of an organisation. A higher plan and other overrides begin at the next whole hour, a
// lower plan begins with the next month. Only operators of the cloud may change to or from committed, and give overrides.
type SetPlanRequest struct {
	Plan      string         `json:"plan"`                // free, payg or committed
	Overrides *PlanOverrides `json:"overrides,omitempty"` // absent = the prices of the plan
}

// PlanOverrides replace parts of a plan's prices for one organisation. Absent parts stay the plan's. Amounts are decimal
// numbers of dollars with at most nine decimals.
type PlanOverrides struct {
	MonthlyFee      *string `json:"monthly_fee,omitempty"`
	Minimum         *string `json:"minimum,omitempty"`
	DiscountPercent *int64  `json:"discount_percent,omitempty"` // 0 to 100
	// Prices replace the plan's prices of their meters.
	Prices []PlatformPrice `json:"prices,omitempty"`
}

// PlanVersion is what a plan charges from an hour on, until its next version begins.
type PlanVersion struct {
	Plan            string          `json:"plan"`
	PriceVersion    string          `json:"price_version"`    // names the prices in lines of bills
	From            Time            `json:"from"`             // a whole hour
	MonthlyFee      string          `json:"monthly_fee"`      // in USD
	Minimum         string          `json:"minimum"`          // in USD, of a month's usage after the discount
	DiscountPercent int64           `json:"discount_percent"` // on usage
	Prices          []PlatformPrice `json:"prices"`
}

// PlatformPrice is what the cloud charges for the quantity of a meter that an organisation uses in a month.
type PlatformPrice struct {
	Meter    string         `json:"meter"`              // name of the meter
	Unit     string         `json:"unit,omitempty"`     // of the meter; in responses only
	Per      int64          `json:"per"`                // units that a tier's price is for
	Included int64          `json:"included,omitempty"` // units of each month that cost nothing
	Tiers    []PlatformTier `json:"tiers"`              // graduated, 1 to 20
}

// PlatformTier is a range of the quantity of a month with one price.
type PlatformTier struct {
	UpTo      int64  `json:"up_to,omitempty"` // end of the tier, with the included quantity; only the last tier has none
	UnitPrice string `json:"unit_price"`      // in USD
}

// PlatformPrices are the plans that the cloud offers.
type PlatformPrices struct {
	Currency string `json:"currency"`
	// Versions are ordered by plan, the lowest first, and by the hour at which they begin.
	Versions []PlanVersion `json:"versions"`
}
