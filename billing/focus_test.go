package billing

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/billing/money"
)

// focusOf returns the CSV of a story's bill and its records.
func focusOf(t *testing.T, story string, i FocusInvoice) (Bill, string, [][]string) {
	t.Helper()
	text, err := os.ReadFile(story)
	if err != nil {
		t.Fatal(err)
	}
	input, _, _ := strings.Cut(string(text), dashes+"\n")
	b, err := Rate(readStory(t, input))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	i.Month, i.Rounding, i.Subtotal = b.Start, b.Rounding, b.Subtotal
	for _, l := range b.Lines {
		i.Lines = append(i.Lines, InvoiceLine{l, b.Start.UnixNano()})
	}
	if err := i.Write(&out); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return b, out.String(), records
}

// The CSV of each golden bill is golden too. A name with a comma and quotes stays one value.
func TestFocusIsGolden(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"example", "committed", "prorated"} {
		_, got, _ := focusOf(t, "testdata/bills/"+name+".txt", FocusInvoice{
			Org: "org_1", OrgName: `Acme, "the best"`, Namespaces: map[string]string{"prod": "production"}, InvoiceSums: InvoiceSums{Credits: 3 * Cent},
		})
		golden := "testdata/focus/" + name + ".csv"
		if *rewrite {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the CSV differs from %s:\n%s", golden, got)
		}
	}
}

// The billed costs of each bill sum to what is to pay, and columns that FOCUS wants in every record, or in every record
// of usage, have a value.
func TestFocusAddsUp(t *testing.T) {
	t.Parallel()
	stories, err := filepath.Glob("testdata/bills/*.txt")
	if err != nil || len(stories) < 8 {
		t.Fatalf("%d stories, %v", len(stories), err)
	}
	never := []string{"BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeDescription",
		"ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "ListCost", "InvoiceIssuerName", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName"}
	usage := []string{"ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "SkuId", "SkuPriceId", "SubAccountId"}
	for _, story := range stories {
		b, _, _ := focusOf(t, story, FocusInvoice{Org: "org_1", OrgName: "acme"})
		credits := b.Subtotal / 3
		_, _, records := focusOf(t, story, FocusInvoice{Org: "org_1", OrgName: "acme", InvoiceSums: InvoiceSums{Credits: credits}})
		if !slices.Equal(records[0], FocusColumns) {
			t.Fatalf("the header is %v", records[0])
		}
		value := func(record []string, column string) string { return record[slices.Index(FocusColumns, column)] }
		var sum money.Nano
		for _, r := range records[1:] {
			cost, err := money.Parse(value(r, "BilledCost"))
			if err != nil {
				t.Fatal(err)
			}
			sum += cost
			wanted := never
			if value(r, "ChargeCategory") == "Usage" {
				wanted = append(wanted[:len(wanted):len(wanted)], usage...)
			}
			for _, column := range wanted {
				if value(r, column) == "" {
					t.Errorf("%s: %s is missing in %v", story, column, r)
				}
			}
		}
		if want := b.Subtotal - credits; sum != want {
			t.Errorf("%s: the costs sum to %s, want %s", story, sum, want)
		}
	}
}

// Late usage corrects its own month. The amounts that one invoice carries to the next are records too, so that the costs
// sum to the total.
func TestFocusOfLateUsage(t *testing.T) {
	t.Parallel()
	late := lineOf("jobs_enqueued", -2*Cent)
	late.MonthNs = month.AddDate(0, -1, 0).UnixNano()
	late.Namespace = "prod"
	lines := append([]InvoiceLine{lineOf("monthly_fee", 7*Cent), late}, BroughtForward(3*Cent, month.UnixNano())...)
	sums, err := SumInvoice(lines, money.Count{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (FocusInvoice{Org: "org_1", Month: month, Lines: lines, InvoiceSums: sums}).Write(&out); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range records[1:] {
		value := func(column string) string { return r[slices.Index(FocusColumns, column)] }
		got = append(got, strings.Join([]string{value("BilledCost"), value("ChargeClass"), value("ChargePeriodStart")[:7], value("BillingPeriodStart")[:7]}, " "))
	}
	want := []string{"0.07  2026-02 2026-02", "-0.02 Correction 2026-01 2026-02", "0.03  2026-02 2026-02", "-0.08  2026-02 2026-02"}
	if !slices.Equal(got, want) {
		t.Errorf("the records are %q, want %q", got, want)
	}
}

// Every unit of a meter that can have a price has a name in FOCUS.
func TestFocusKnowsEveryUnit(t *testing.T) {
	t.Parallel()
	for _, d := range Meters {
		if d.Known() && d.Meter != Cost && focusUnits[d.Unit] == "" {
			t.Errorf("the unit %s of %s has no name", d.Unit, d.Name)
		}
	}
}

// A line whose quantity is no multiple of the unit of the price has a quantity with nine decimals.
func TestFocusQuantities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		quantity, per int64
		want          string
	}{{1, 3600, "0.000277778"}, {3600, 3600, "1"}, {7200000, 3600, "2000"}, {0, 3600, "0"}, {5, 2, "2.5"}, {1<<63 - 1, 1, "9223372036854775807"}} {
		charge, err := Line{Item: "open_seconds", Quantity: money.CountOf(c.quantity), Per: c.per}.focus()
		if err != nil || charge["PricingQuantity"] != c.want {
			t.Errorf("%d per %d is %s, %v; want %s", c.quantity, c.per, charge["PricingQuantity"], err, c.want)
		}
	}
	if _, err := (Line{Item: "open_seconds"}).focus(); err == nil {
		t.Error("a line without a unit of its price is written")
	}
}
