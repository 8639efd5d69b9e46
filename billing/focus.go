package billing

import (
	"encoding/csv"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// FocusColumns is the header of a bill as CSV: the columns of FOCUS 1.2, the FinOps Open Cost and Usage Specification, that
// a bill has values for. docs/billing.md explains them.
var FocusColumns = []string{
	"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
	"ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
	"ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName",
	"ListCost", "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
	"ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuMeter", "SkuPriceId", "SubAccountId", "SubAccountName",
}

// The names that FOCUS gives to kinds of charges.
const (
	focusUsage      = "Usage"
	focusPurchase   = "Purchase"
	focusAdjustment = "Adjustment"
	focusCredit     = "Credit"
)

// focusProvider is the provider, the publisher and the issuer of a bill.
const focusProvider = "Corvo"

// focusUnits are the plural units of meters in the form that FOCUS prescribes.
var focusUnits = map[string]string{
	"report": "Reports", "token": "Tokens", "request": "Requests", "byte": "B", "job": "Jobs", "second": "Seconds", "byte-second": "B-Seconds",
}

// FocusInvoice is an invoice, or the preview of one, with the names that its CSV needs.
type FocusInvoice struct {
	Org, OrgName string
	Number       string            // "" = a preview
	Namespaces   map[string]string // names by id; a deleted namespace has none
	Month        time.Time         // any moment of it
	Lines        []InvoiceLine
	InvoiceSums
}

// Write writes the invoice as CSV in the columns of FOCUS: a record for each line, then the rounding, the credits that the
// invoice uses and what it carries forward, unless they are 0. The values of BilledCost sum exactly to the total.
func (i FocusInvoice) Write(w io.Writer) error {
	records := [][]string{FocusColumns}
	start, end := Month.Window(i.Month, time.UTC)
	add := func(charge map[string]string, month time.Time) {
		from, to := Month.Window(month, time.UTC)
		for name, value := range map[string]string{
			"BillingAccountId": i.Org, "BillingAccountName": i.OrgName, "BillingCurrency": USD, "InvoiceId": i.Number,
			"BillingPeriodStart": focusTime(start), "BillingPeriodEnd": focusTime(end), "ChargePeriodStart": focusTime(from), "ChargePeriodEnd": focusTime(to),
			"InvoiceIssuerName": focusProvider, "ProviderName": focusProvider, "PublisherName": focusProvider,
			"ServiceCategory": "Integration", "ServiceSubcategory": "Messaging", "ServiceName": "Corvo Cloud",
			// A bill has no list prices beside the agreed ones, so that all costs are equal.
			"ContractedCost": charge["BilledCost"], "EffectiveCost": charge["BilledCost"], "ListCost": charge["BilledCost"],
		} {
			charge[name] = value
		}
		record := make([]string, len(FocusColumns))
		for at, column := range FocusColumns {
			record[at] = charge[column]
		}
		records = append(records, record)
	}
	for _, l := range i.Lines {
		charge, err := l.focus()
		if err != nil {
			return err
		}
		if l.Namespace != "" {
			charge["SubAccountId"], charge["SubAccountName"] = l.Namespace, i.Namespaces[l.Namespace]
		}
		month := time.Unix(0, l.MonthNs)
		if month.Before(start) {
			charge["ChargeClass"] = "Correction" // of a month that has an invoice
		}
		add(charge, month)
	}
	for _, rest := range []struct {
		category, description string
		amount                money.Nano
	}{
		{focusAdjustment, "rounding to whole cents", i.Rounding},
		{focusCredit, "credits", -i.Credits},
		{focusAdjustment, "carried forward to the next invoice", -i.Carried},
	} {
		if rest.amount != 0 {
			add(map[string]string{"BilledCost": rest.amount.String(), "ChargeCategory": rest.category, "ChargeFrequency": "One-Time", "ChargeDescription": rest.description}, start)
		}
	}
	return csv.NewWriter(w).WriteAll(records)
}

// focus returns the columns that depend on the line alone.
func (l Line) focus() (map[string]string, error) {
	charge := map[string]string{"BilledCost": l.Amount.String(), "SkuPriceId": l.PriceVersion + "/" + l.Item}
	quantity, ok := new(big.Int).SetString(l.Quantity.String(), 10)
	if !ok || l.Per <= 0 {
		return nil, fmt.Errorf("%w: the line %s has the quantity %s per %d", ErrUnratable, l.Item, l.Quantity, l.Per)
	}
	priced := trimDecimal(new(big.Rat).SetFrac(quantity, big.NewInt(l.Per)).FloatString(9))
	meter, known := MeterNamed(l.Item)
	switch {
	case known:
		unit := focusUnits[Meters[meter].Unit]
		charge["ChargeCategory"], charge["ChargeFrequency"], charge["PricingCategory"] = focusUsage, "Usage-Based", "Standard"
		charge["ChargeDescription"] = fmt.Sprintf("%s, tier %d of %s", l.Item, l.Tier, l.PriceVersion)
		charge["SkuId"], charge["SkuMeter"], charge["SkuPriceId"] = l.Item, l.Item, fmt.Sprintf("%s/%s/%d", l.PriceVersion, l.Item, l.Tier)
		charge["ConsumedQuantity"], charge["ConsumedUnit"] = l.Quantity.String(), unit
		charge["PricingQuantity"], charge["PricingUnit"], charge["ContractedUnitPrice"] = priced, unitOf(l.Per, unit), l.UnitPrice.String()
	case l.Item == ItemFee:
		charge["ChargeCategory"], charge["ChargeFrequency"], charge["PricingCategory"] = focusPurchase, "Recurring", "Standard"
		charge["ChargeDescription"], charge["SkuId"] = "monthly fee of "+l.PriceVersion, l.Item
		charge["PricingQuantity"], charge["PricingUnit"], charge["ContractedUnitPrice"] = priced, "Months", l.UnitPrice.String()
	case l.Item == ItemBroughtForward:
		charge["ChargeCategory"], charge["ChargeFrequency"], charge["SkuPriceId"] = focusAdjustment, "One-Time", ""
		charge["ChargeDescription"] = "carried forward from the invoice before"
	default: // the discount and the minimum
		charge["ChargeCategory"], charge["ChargeFrequency"] = focusAdjustment, "Recurring"
		charge["ChargeDescription"], charge["SkuId"] = l.Item+" of "+l.PriceVersion, l.Item
	}
	return charge, nil
}

// unitOf returns the unit of a price for a number of units, such as "1000000 Tokens".
func unitOf(per int64, unit string) string {
	if per == 1 {
		return unit
	}
	return fmt.Sprintf("%d %s", per, unit)
}

// trimDecimal removes the zeros at the end of a decimal number with a point.
func trimDecimal(text string) string { return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") }

// focusTime formats a time in UTC in the form that FOCUS prescribes.
func focusTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }
