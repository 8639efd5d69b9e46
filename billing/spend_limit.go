package billing

import "github.com/corvo/corvo/billing/money"

// HoldPercent is the share of a spend limit, in percent, at which no more jobs start.
const HoldPercent = 100

// AlertPercents returns the shares of a spend limit, in percent and in rising order, that an alert tells of.
func AlertPercents() []int64 { return []int64{50, 80, 95, HoldPercent} }

// SpendReaches reports whether a spend is at least a share of a limit. percent is one of AlertPercents, and the limit is
// not negative.
func SpendReaches(spend, limit money.Nano, percent int64) bool {
	// The product of limit and percent may not fit. Its quotient by 100 does, and is rounded up.
	whole, rest := limit/100, limit%100
	return spend >= whole*money.Nano(percent)+(rest*money.Nano(percent)+99)/100
}

// SpendPercent returns the highest of AlertPercents that a spend reaches; 0 = none.
func SpendPercent(spend, limit money.Nano) (percent int64) {
	for _, p := range AlertPercents() {
		if SpendReaches(spend, limit, p) {
			percent = p
		}
	}
	return percent
}
