package api

import "github.com/corvo/corvo/billing/money"

// USD is an amount of dollars as requests and answers have it: a decimal number, exact to
// nine decimals.
type USD = money.Nano

// ParseUSD reads an amount such as "12.5". What it cannot hold exactly is an error.
func ParseUSD(text string) (USD, error) { return money.Parse(text) }

// ReportedUSD is an amount that a program reports or estimates: rounded to nine decimals.
type ReportedUSD = money.Reported
