package store

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// The months of the tests of invoices. The epoch of the tests lies in november.
var (
	november = time.Date(2023, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	december = time.Date(2023, 12, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	january  = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	february = time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC).UnixNano()
)

// invoiceWorld has organisation a with the plan payg and the namespace ns_x, from which no usage is awaited.
func invoiceWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.ok(newOrg("a"), newNamespace("org_a", "x"), &SetPlan{Meta: by("op"), Org: "org_a", Plan: string(billing.PayAsYouGo)})
	w.pass(time.Hour)
	return w
}

func plansOf(t testing.TB) *billing.PlanBook {
	t.Helper()
	book, err := billing.ShippedPlans()
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// egress is a frame of ns_x with bytes that gateways have counted in the hour after a time. A gigabyte above the first ten
// costs 0.09 USD.
func egress(seq uint64, afterNs, bytes int64) *ApplyUsage {
	hour := afterNs - afterNs%int64(time.Hour) + int64(time.Hour)
	return frame("ns_x", seq, seq, &UsageRow{HourNs: hour, Queue: "q", Meter: uint32(billing.ResponseBytes), Quantity: bytes})
}

const gigabyte = 1_000_000_000

// monthUsage returns the usage of the next month of an organisation to be invoiced.
func (w *world) monthUsage(org string) MonthUsage {
	w.t.Helper()
	return ask(w, func(r reader) (MonthUsage, error) {
		until, err := invoicedUntil(r, tenancy.OrgID(org))
		if err != nil {
			return MonthUsage{}, err
		}
		return readMonth(r, tenancy.OrgID(org), until)
	})
}

// closing returns the op that makes the next invoice of an organisation.
func (w *world) closing(org string) *FinaliseInvoice {
	w.t.Helper()
	o, err := w.monthUsage(org).Finalise(by("closer"), tenancy.OrgID(org), plansOf(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// invoiced makes the next invoice of an organisation and returns it.
func (w *world) invoiced(org string) Invoice {
	w.t.Helper()
	n := do[*FinaliseInvoiceResult](w, w.closing(org)).Number
	i, err := w.store().Invoice(w.t.Context(), tenancy.OrgID(org), n)
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

// goTo moves the clock to a time.
func (w *world) goTo(ns int64) { w.clockNs = ns }

// printInvoice is the form of an invoice in these tests.
func printInvoice(i Invoice) string {
	var out strings.Builder
	for _, l := range i.Lines {
		fmt.Fprintf(&out, "%s %s tier %d of %s: %s = %s\n", l.Item, l.Namespace, l.Tier, time.Unix(0, l.MonthNs).UTC().Format("2006-01"), l.Quantity, l.Amount)
	}
	fmt.Fprintf(&out, "%s %s: subtotal %s with rounding %s, credits %s, carried %s, total %s", InvoiceNumber(i.Number), i.Status, i.Subtotal, i.Rounding, i.Credits, i.Carried, i.Total)
	return out.String()
}

func wantInvoice(t *testing.T, i Invoice, want ...string) {
	t.Helper()
	if got, want := printInvoice(i), strings.Join(want, "\n"); got != want {
		t.Errorf("the invoice is\n%s\nwant\n%s", got, want)
	}
}

// verified checks the ledger, and that late usage and the numbers of invoices have no gaps.
func (w *world) verified() {
	w.t.Helper()
	ask(w, func(r reader) (any, error) {
		if _, err := verifyLedger(r, nil); err != nil {
			return nil, err
		}
		return nil, inspectInvoices(r, plansOf(w.t))
	})
}

// A month becomes one invoice with the next number, which uses credits once and is posted once.
func TestFinaliseInvoice(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	soon := credited("a", "soon", 1*money.Dollar)
	soon.ExpiresNs = december
	early := credited("a", "early", 1*money.Dollar)
	early.ExpiresNs = december - 1
	w.ok(credited("a", "later", 2*money.Dollar), soon, early, egress(1, w.clockNs, 30*gigabyte+1), newOrg("b"))
	before := w.monthUsage("org_a")
	lines, preview, cost, err := before.Rate(plansOf(t))
	if err != nil || cost.ByModel != nil {
		t.Fatalf("%+v, %v", cost, err)
	}
	w.refused(api.StateConflict, w.closing("org_a")) // the month is not over
	w.goTo(december)
	i := w.invoiced("org_a")
	wantInvoice(t, i, "response_bytes ns_x tier 0 of 2023-11: 10000000000 = 0", "response_bytes ns_x tier 1 of 2023-11: 20000000001 = 1.8",
		"INV-000001 paid: subtotal 1.8 with rounding 0, credits 1.8, carried 0, total 0")
	if !slices.Equal(lines, i.Lines) || preview != i.InvoiceSums || !i.Complete || i.FinalisedNs != december {
		t.Errorf("the preview was %+v %+v", lines, preview)
	}
	w.wantCredit("early", CreditExpired, "0")
	w.wantCredit("soon", CreditUsed, "0")
	w.wantCredit("later", CreditActive, "1.2")
	if used := ask(w, func(r reader) ([]string, error) {
		return list(r, scalar[string], "SELECT number || ' ' || credit || ' ' || amount FROM invoice_credits ORDER BY credit")
	}); !slices.Equal(used, []string{"1 later 800000000", "1 soon 1000000000"}) {
		t.Errorf("the invoice has used %v", used)
	}
	if got := w.invoiced("org_b"); got.Number != 2 || len(got.Lines) != 0 || got.Status != billing.InvoicePaid {
		t.Errorf("the invoice of an organisation without usage is\n%s", printInvoice(got))
	}
	w.refused(api.StateConflict, w.closing("org_a")) // december is not over
	w.goTo(january)
	w.ok(egress(2, january-int64(2*time.Hour), 20*gigabyte))
	i = w.invoiced("org_a")
	wantInvoice(t, i, "response_bytes ns_x tier 0 of 2023-12: 10000000000 = 0", "response_bytes ns_x tier 1 of 2023-12: 10000000000 = 0.9",
		"INV-000003 paid: subtotal 0.9 with rounding 0, credits 0.9, carried 0, total 0")
	w.verified()
	rows, err := w.store().Audit(t.Context(), "org_a", 0, MaxPage)
	if err != nil || rows[len(rows)-1].Action != "finalise-invoice" || rows[len(rows)-1].Target != "INV-000003" {
		t.Errorf("the audit log ends with %+v, %v", rows[len(rows)-1], err)
	}
	if all, err := w.store().Invoices(t.Context(), "org_a", 0, MaxPage); err != nil || len(all) != 2 || all[0].Number != 3 || all[1].Number != 1 {
		t.Errorf("the invoices are %+v, %v", all, err)
	}
	if all, err := w.store().Invoices(t.Context(), "org_a", 3, MaxPage); err != nil || len(all) != 1 || all[0].Number != 1 {
		t.Errorf("the invoices before 3 are %+v, %v", all, err)
	}
	if _, err := w.store().Invoice(t.Context(), "org_a", 2); api.CodeOf(err) != api.NotFound {
		t.Errorf("the invoice of another organisation: %v", err)
	}
}

// A credit that expires between the end of a month and the close is kept for that month's invoice, and for no later one.
func TestACreditThatExpiresDuringAClose(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	at, later, unused := credited("a", "at", 1*money.Dollar), credited("a", "later", 2*money.Dollar), credited("a", "unused", 1*money.Dollar)
	at.ExpiresNs, later.ExpiresNs, unused.ExpiresNs = december, december+1, january-1
	w.ok(at, later, unused, egress(1, w.clockNs, 30*gigabyte))
	w.goTo(january + int64(time.Hour)) // the closes are late
	w.ok(&StartTerm{Meta: by("engine")})
	for _, id := range []string{"at", "later", "unused"} {
		if c := w.credit(id); c.Status != CreditExpiring || c.EndedNs != 0 || c.Rest != c.Amount {
			t.Errorf("before the close credit %s is %+v", id, c)
		}
	}
	wantInvoice(t, w.invoiced("org_a"), "response_bytes ns_x tier 0 of 2023-11: 10000000000 = 0", "response_bytes ns_x tier 1 of 2023-11: 20000000000 = 1.8",
		"INV-000001 paid: subtotal 1.8 with rounding 0, credits 1.8, carried 0, total 0")
	w.wantCredit("at", CreditUsed, "0")
	w.wantCredit("later", CreditExpired, "0")
	w.wantCredit("unused", CreditExpired, "0")
	w.verified()
}

// Two closers rate the same month. The second op is refused, and gives no number.
func TestTwoClosers(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	w.ok(egress(1, w.clockNs, 30*gigabyte))
	w.goTo(december)
	one, two := w.closing("org_a"), w.closing("org_a")
	w.ok(one)
	w.refused(api.StateConflict, two)
	w.reopen()
	w.refused(api.StateConflict, two)
	w.verified()
	if h := ask(w, func(r reader) (ledgerHead, error) { return readLedgerHead(r) }); h.number != 1 {
		t.Errorf("the ledger has %d transactions", h.number)
	}
}

// Usage or a change of plan between rating and the op refuses the op. Rated again, the month has all of it.
func TestUsageThatArrivesDuringAClose(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	w.ok(egress(1, w.clockNs, 30*gigabyte), newNamespace("org_a", "y"), newOrg("b"), newNamespace("org_b", "z"))
	w.goTo(december)
	rated := w.closing("org_a")
	foreign := egress(1, november, 1)
	foreign.Namespace = "ns_z"
	w.ok(foreign, egress(2, december, gigabyte)) // neither is of this month and organisation
	if !bytes.Equal(w.closing("org_a").RatedSha256, rated.RatedSha256) {
		t.Error("usage of another month or organisation changes the hash")
	}
	other := egress(1, december-int64(5*time.Hour), gigabyte)
	other.Namespace = "ns_y"
	for _, change := range []op{
		egress(3, december-int64(5*time.Hour), gigabyte), other,
		&SetPlan{Meta: by("op"), Org: "org_a", Plan: string(billing.Committed), Operator: true},
	} {
		w.ok(change)
		w.refused(api.StateConflict, rated)
		rated = w.closing("org_a")
	}
	w.ok(rated)
	w.verified()
	i := ask(w, func(r reader) (int64, error) { return number(r, "SELECT COUNT(*) FROM usage_late") })
	if i != 0 {
		t.Errorf("%d rows are late", i)
	}
}

// A close waits for all sources, and not longer than the grace.
func TestACloseWaitsForUsage(t *testing.T) {
	t.Parallel()
	w := claimWorld(t)
	w.goTo(december)
	w.claim(gatewayClaim("g", december))
	w.claim(claimOf("a", 0, december-1))
	w.refused(api.StateConflict, w.closing("org_acme"))
	w.goTo(december + int64(billing.CloseGrace) - 1)
	w.refused(api.StateConflict, w.closing("org_acme"))
	w.pass(1)
	if i := w.invoiced("org_acme"); i.Complete {
		t.Error("the invoice is complete without a source")
	}
	w.goTo(january + int64(time.Hour))
	w.claim(claimOf("a", 0, january), gatewayClaim("g", january-1))
	w.refused(api.StateConflict, w.closing("org_acme"))
	w.claim(gatewayClaim("g", january))
	if i := w.invoiced("org_acme"); !i.Complete {
		t.Error("the invoice is not complete with all sources")
	}
	due, err := w.store().DueInvoices(t.Context(), time.Unix(0, february), "", MaxPage)
	if err != nil || len(due) != 1 || due[0] != (DueInvoice{"org_acme", february}) {
		t.Errorf("due are %+v, %v", due, err)
	}
	if due, err = w.store().DueInvoices(t.Context(), time.Unix(0, february-1), "", MaxPage); err != nil || len(due) != 0 {
		t.Errorf("due before the month ends are %+v, %v", due, err)
	}
}

// Late usage is on the next invoice, at the price of its hour, and on no other one.
func TestLateUsage(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	at := w.clockNs
	w.ok(egress(1, at+int64(5*time.Hour), 10*gigabyte))
	w.goTo(december)
	w.ok(egress(2, december, 20*gigabyte))
	wantInvoice(t, w.invoiced("org_a"), "response_bytes ns_x tier 0 of 2023-11: 10000000000 = 0", "INV-000001 paid: subtotal 0 with rounding 0, credits 0, carried 0, total 0")
	// The late row comes before the other row of its month, so that it takes the included quantity and the other row costs.
	w.ok(newNamespace("org_a", "a"))
	late := egress(1, at, 10*gigabyte)
	late.Namespace = "ns_a"
	w.ok(late, egress(3, at, 5*gigabyte))
	w.goTo(january)
	i := w.invoiced("org_a")
	wantInvoice(t, i, "response_bytes ns_x tier 0 of 2023-12: 10000000000 = 0", "response_bytes ns_x tier 1 of 2023-12: 10000000000 = 0.9",
		"response_bytes ns_a tier 0 of 2023-11: 10000000000 = 0", "response_bytes ns_x tier 1 of 2023-11: 15000000000 = 1.35", "response_bytes ns_x tier 0 of 2023-11: -10000000000 = 0",
		"INV-000002 finalised: subtotal 2.25 with rounding 0, credits 0, carried 0, total 2.25")
	w.verified()
	// Usage of a month before the organisation was created is late too.
	w.ok(egress(4, at, gigabyte), egress(5, november-int64(2*time.Hour), 1))
	w.goTo(february)
	w.reopen()
	i = w.invoiced("org_a")
	wantInvoice(t, i, "response_bytes ns_x tier 1 of 2023-10: 1 = 0", "response_bytes ns_x tier 1 of 2023-11: 1000000000 = 0.09", "INV-000003 paid: subtotal 0.09 with rounding 0, credits 0, carried 0.09, total 0")
	w.verified()
}

// A total below 0.50 USD is a line of the next invoice.
func TestATotalIsCarriedForward(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	w.ok(egress(1, w.clockNs, 12*gigabyte))
	w.goTo(december)
	w.ok(egress(2, december, 14*gigabyte))
	if i := w.invoiced("org_a"); i.Carried.String() != "0.18" || i.Total != 0 {
		t.Errorf("the invoice is\n%s", printInvoice(i))
	}
	w.goTo(january)
	wantInvoice(t, w.invoiced("org_a"), "response_bytes ns_x tier 0 of 2023-12: 10000000000 = 0", "response_bytes ns_x tier 1 of 2023-12: 4000000000 = 0.36",
		"brought_forward  tier 0 of 2023-12: 1 = 0.18", "INV-000002 finalised: subtotal 0.54 with rounding 0, credits 0, carried 0, total 0.54")
	w.verified()
	balances := ask(w, func(r reader) ([]string, error) {
		return list(r, scalar[string], "SELECT account || ' ' || balance FROM ledger_balances WHERE balance <> 0 ORDER BY account")
	})
	if want := []string{"1100 540000000", "4400 -540000000"}; !slices.Equal(balances, want) {
		t.Errorf("the balances are %v, want %v", balances, want)
	}
}

// Ops that no leader sends are refused before they are in the log, and sums that do not fit when they are applied.
func TestFinaliseInvoiceRefuses(t *testing.T) {
	t.Parallel()
	w := invoiceWorld(t)
	w.ok(egress(1, w.clockNs, 30*gigabyte))
	w.goTo(december)
	for name, change := range map[string]func(*FinaliseInvoice){
		"which ends no month":    func(o *FinaliseInvoice) { o.EndNs-- },
		"has 31 bytes":           func(o *FinaliseInvoice) { o.RatedSha256 = o.RatedSha256[1:] },
		"is not valid":           func(o *FinaliseInvoice) { o.LlmCost = []byte("[") },
		"has 1048577 bytes":      func(o *FinaliseInvoice) { o.LlmCost = bytes.Repeat([]byte(" "), MaxLLMCost+1) },
		"has 50001 entries":      func(o *FinaliseInvoice) { o.Lines = make([]*InvoiceLine, MaxInvoiceLines+1) },
		"is another amount":      func(o *FinaliseInvoice) { o.Lines[1].Amount++ },
		"lines[0].namespace":     func(o *FinaliseInvoice) { o.Lines[0].Namespace = "ns/x" },
		"lines[0].price_version": func(o *FinaliseInvoice) { o.Lines[0].PriceVersion = "" },
		"is not written as 1":    func(o *FinaliseInvoice) { o.Lines[0].Quantity = "1.0" },
		"no month up to":         func(o *FinaliseInvoice) { o.Lines[0].MonthNs = december },
	} {
		o := w.closing("org_a")
		change(o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.refused(api.NotFound, func() op { o := w.closing("org_a"); o.Org = "org_none"; return o }())
	skipped := w.closing("org_a")
	skipped.EndNs = january
	for _, l := range skipped.Lines {
		l.MonthNs = december
	}
	w.refused(api.StateConflict, skipped)
	large := w.closing("org_a")
	line := &InvoiceLine{MonthNs: november, Item: billing.ItemFee, PriceVersion: "v", Quantity: "1", Per: 1, UnitPrice: math.MaxInt64, Amount: math.MaxInt64}
	large.Lines = append(large.Lines, line, line)
	w.refused(api.ValidationError, large)
	w.invoiced("org_a")
	w.verified()
	for _, text := range []string{"UPDATE invoices SET total = 1", "DELETE FROM invoices", "UPDATE invoice_lines SET amount = 1", "DELETE FROM invoice_lines"} {
		if _, err := w.db.exec(text); err == nil {
			t.Errorf("%s succeeds", text)
		}
	}
}

func TestInvoiceNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{1: "INV-000001", 999_999: "INV-999999", 1_000_000: "INV-1000000"} {
		got := InvoiceNumber(n)
		if back, ok := ParseInvoiceNumber(got); got != want || !ok || back != n {
			t.Errorf("%d is %s, and back %d", n, got, back)
		}
	}
	for _, text := range []string{"", "1", "INV-1", "INV-0000001", "INV-000000", "INV--00001", "inv-000001", "INV-+00001", "INV-99999999999999999999"} {
		if n, ok := ParseInvoiceNumber(text); ok {
			t.Errorf("%q is number %d", text, n)
		}
	}
}
