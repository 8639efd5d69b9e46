package billing

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo/corvo/billing/money"
)

// However the rows of a month arrive over three invoices, the lines about the month sum to its bill, for each item,
// namespace, price version and tier.
func TestLateUsageCostsWhatItWouldHaveCost(t *testing.T) {
	t.Parallel()
	book := shippedBook(t)
	rapid.Check(t, func(t *rapid.T) {
		all := Rating{Month: month, Usage: drawUsage(t, 3), History: drawHistory(t), Book: book}
		arrived := all
		arrived.Usage = nil
		later := Rating{Month: month, History: all.History, Book: book}
		var charged []Line
		for invoice := range 3 {
			for i, u := range all.Usage {
				if i%3 == invoice {
					arrived.Usage = append(arrived.Usage, u)
				}
			}
			var lines []InvoiceLine
			var err error
			if invoice == 0 {
				lines, _, err = RateInvoice(arrived, nil)
			} else {
				later.Month = month.AddDate(0, invoice, 0)
				lines, _, err = RateInvoice(later, []LateMonth{{month.Add(time.Hour), arrived.Usage, charged}})
			}
			if err != nil {
				t.Fatal(err)
			}
			start := month.AddDate(0, invoice, 0).UnixNano()
			for _, l := range lines {
				if err := l.Check(start); err != nil {
					t.Fatalf("%+v: %v", l, err)
				}
				if l.MonthNs == month.UnixNano() {
					charged = append(charged, l.Line)
				}
			}
			checkPostings(t, lines)
		}
		if rest, err := difference(rated(t, all).Lines, charged); err != nil || len(rest) > 0 {
			t.Fatalf("of the bill\n%s\nthe invoices lack %+v, %v", printBill(rated(t, all)), rest, err)
		}
	})
}

// checkPostings checks that the postings of an invoice with these lines sum to zero and are in order.
func checkPostings(t *rapid.T, lines []InvoiceLine) {
	t.Helper()
	credits := money.CountOf(rapid.Int64Range(0, 1<<40).Draw(t, "credits"))
	sums, err := SumInvoice(lines, credits)
	if err != nil {
		t.Fatal(err)
	}
	if sums.Credits+sums.Carried+sums.Total != sums.Subtotal || money.CountOf(int64(sums.Credits)).Compare(credits) > 0 || sums.Total != 0 && sums.Total < LeastTotal {
		t.Fatalf("the sums are %+v", sums)
	}
	postings, err := Postings(lines, sums)
	if err != nil || len(postings) == 0 {
		if err != nil || sums != (InvoiceSums{}) {
			t.Fatalf("%v, %v for %+v", postings, err, sums)
		}
		return
	}
	if err := (Transaction{Source: "invoice/1", Org: "org", Currency: USD, AtNs: 1, Postings: postings}).Validate(); err != nil {
		t.Fatal(err)
	}
}

func lineOf(item string, amount money.Nano) InvoiceLine {
	return InvoiceLine{Line{Item: item, PriceVersion: "v", Quantity: money.CountOf(1), Per: 1, UnitPrice: amount, Amount: amount}, month.UnixNano()}
}

// An invoice uses whole cents of credits, and not more than it is. It carries less than 0.50 USD forward.
func TestSumInvoice(t *testing.T) {
	t.Parallel()
	var most money.Count
	if err := most.UnmarshalJSON([]byte("99999999999999999999999999999999999999")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		amount  money.Nano
		credits money.Count
		want    InvoiceSums
		status  InvoiceStatus
	}{
		{"nothing", 0, most, InvoiceSums{}, InvoicePaid},
		{"0.50", 50 * Cent, money.Count{}, InvoiceSums{Subtotal: 50 * Cent, Total: 50 * Cent}, InvoiceFinalised},
		{"0.49", 49 * Cent, money.Count{}, InvoiceSums{Subtotal: 49 * Cent, Carried: 49 * Cent}, InvoicePaid},
		{"rounded up to 0.50", 50*Cent - 4, money.Count{}, InvoiceSums{Rounding: 4, Subtotal: 50 * Cent, Total: 50 * Cent}, InvoiceFinalised},
		{"below a cent", 3, money.Count{}, InvoiceSums{Rounding: -3}, InvoicePaid},
		{"less than a cent of credits", 60 * Cent, money.CountOf(int64(Cent) - 1), InvoiceSums{Subtotal: 60 * Cent, Total: 60 * Cent}, InvoiceFinalised},
		{"a part", 60 * Cent, money.CountOf(int64(10*Cent) + 7), InvoiceSums{Subtotal: 60 * Cent, Credits: 10 * Cent, Total: 50 * Cent}, InvoiceFinalised},
		{"a part that leaves little", 60 * Cent, money.CountOf(int64(11 * Cent)), InvoiceSums{Subtotal: 60 * Cent, Credits: 11 * Cent, Carried: 49 * Cent}, InvoicePaid},
		{"all", 60 * Cent, most, InvoiceSums{Subtotal: 60 * Cent, Credits: 60 * Cent}, InvoicePaid},
		{"negative", -3 * money.Dollar, most, InvoiceSums{Subtotal: -3 * money.Dollar, Carried: -3 * money.Dollar}, InvoicePaid},
		{"half a cent below zero", -Cent / 2, most, InvoiceSums{Rounding: Cent / 2}, InvoicePaid},
	} {
		got, err := SumInvoice([]InvoiceLine{lineOf("jobs_enqueued", c.amount)}, c.credits)
		if err != nil || got != c.want || got.Status() != c.status {
			t.Errorf("%s: %+v %s, %v, want %+v %s", c.name, got, got.Status(), err, c.want, c.status)
		}
	}
	for _, amount := range []money.Nano{money.Max, -money.Max} {
		if got, err := SumInvoice([]InvoiceLine{lineOf("jobs_enqueued", amount), lineOf("jobs_enqueued", amount)}, most); !errors.Is(err, ErrOverflow) {
			t.Errorf("two lines of %s: %+v, %v", amount, got, err)
		}
	}
}

// Each item has an account, and the postings of an invoice are debits of what it is paid with.
func TestPostings(t *testing.T) {
	t.Parallel()
	for _, d := range Meters[1:] {
		if a, ok := (Line{Item: d.Name}).account(); !ok || a < RevenueJobs || a >= RevenueFees {
			t.Errorf("revenue from %s is on account %d", d.Name, a)
		}
	}
	lines := append(BroughtForward(7*Cent, month.UnixNano()), lineOf("jobs_enqueued", 2*money.Dollar+1), lineOf("jobs_completed", 5), lineOf("input_tokens", money.Dollar),
		lineOf(ItemDiscount, -money.Dollar), lineOf(ItemMinimum, 3*money.Dollar), lineOf(ItemFee, money.Dollar))
	sums, err := SumInvoice(lines, money.CountOf(int64(money.Dollar)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Postings(lines, sums)
	want := []Posting{
		{Receivable, 5*money.Dollar + 7*Cent}, {UnbilledUsage, -7 * Cent}, {CreditsOutstanding, money.Dollar}, {RevenueJobs, -2*money.Dollar - 6},
		{RevenueTokens, -money.Dollar}, {RevenueFees, -4 * money.Dollar}, {RevenueDiscounts, money.Dollar}, {RoundingDifference, 6},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the postings are %v, %v, want %v", got, err, want)
	}
	if got, err := Postings([]InvoiceLine{lineOf("tea", 1)}, InvoiceSums{}); !errors.Is(err, ErrUnratable) {
		t.Errorf("a line about tea: %v, %v", got, err)
	}
}

func TestCheckLine(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*InvoiceLine){
		"an unknown item":       func(l *InvoiceLine) { l.Item = "tea" },
		"brought forward":       func(l *InvoiceLine) { l.Item = ItemBroughtForward },
		"for no units":          func(l *InvoiceLine) { l.Per = 0 },
		"a negative tier":       func(l *InvoiceLine) { l.Tier = -1 },
		"a tier too high":       func(l *InvoiceLine) { l.Tier = MaxTiers + 1 },
		"another amount":        func(l *InvoiceLine) { l.Amount++ },
		"another quantity":      func(l *InvoiceLine) { l.Quantity = money.CountOf(2) },
		"a negative quantity":   func(l *InvoiceLine) { l.Quantity, l.Amount = money.CountOf(-1), -l.Amount },
		"the least price":       func(l *InvoiceLine) { l.UnitPrice = money.Min },
		"the least late amount": func(l *InvoiceLine) { l.MonthNs, l.Amount = month.AddDate(0, -1, 0).UnixNano(), money.Min },
		"the next month":        func(l *InvoiceLine) { l.MonthNs = month.AddDate(0, 1, 0).UnixNano() },
		"no beginning":          func(l *InvoiceLine) { l.MonthNs-- },
	} {
		l := lineOf("jobs_enqueued", 5)
		if err := l.Check(month.UnixNano()); err != nil {
			t.Fatal(err)
		}
		if change(&l); l.Check(month.UnixNano()) == nil {
			t.Errorf("a line with %s is valid", name)
		}
	}
}
