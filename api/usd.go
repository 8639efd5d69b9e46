package api

import "github.com/corvo/corvo/billing/money"

// USD is an amount of dollars in requests and responses: a decimal number with up to nine decimals,
// always exact.
type USD = money.Nano

// ParseUSD parses an amount such as "12.5". An amount that a USD cannot hold exactly is an error.
func ParseUSD(text string) (USD, error) { return money.Parse(text) }

// ReportedUSD is an amount that a program reports or estimates. It is rounded to nine decimals.
type ReportedUSD = money.Reported
