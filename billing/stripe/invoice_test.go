package stripe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/billing/stripe/stripefake"
)

func TestACrashMakesNoSecondInvoice(t *testing.T) {
	t.Parallel()
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got Invoice
			crashes(t, wait, func(f *fixture) error {
				customer, err := f.EnsureCustomer(t.Context(), acme)
				if err == nil {
					got, err = f.CollectInvoice(t.Context(), bill(customer))
				}
				return err
			}, func(t *testing.T, f *fixture) {
				invoices, items := f.fake.Objects("invoice"), f.fake.Objects("invoiceitem")
				if len(invoices) != 1 || len(items) != 4 || invoices[0]["auto_advance"] != false {
					t.Errorf("%d invoices, %d items: %v", len(invoices), len(items), invoices)
				}
				want := Invoice{
					ID: invoices[0]["id"].(string), Number: "FAKE-0001", Ours: "2026-000007", Org: acme.Org, Customer: f.fake.Objects("customer")[0]["id"].(string),
					Status: Open, SubtotalCents: 2469, TaxCents: 247, TotalCents: 2716, URL: got.URL, PDF: got.PDF,
				}
				if got != want || !strings.HasSuffix(got.PDF, "/pdf") {
					t.Errorf("%+v, want %+v", got, want)
				}
			})
		})
	}
}

// TestOneInvoiceAmongMany makes enough invoices that the list of the customer's has a second page.
func TestOneInvoiceAmongMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := bill(f.customer(t))
	first, err := f.CollectInvoice(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for range 101 {
		f.byHand(t, "/v1/invoices", "customer="+b.Customer)
	}
	f.clock.Advance(25 * time.Hour)
	if again, err := f.CollectInvoice(t.Context(), b); err != nil || again != first {
		t.Errorf("%+v, %v, want %+v", again, err, first)
	}
}

func TestADraftThatDiffersIsNotFinalised(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, f *fixture, b *Bill, draft string){
		"another item in Stripe": func(t *testing.T, f *fixture, b *Bill, draft string) {
			f.byHand(t, "/v1/invoiceitems", "customer="+b.Customer, "invoice="+draft, "currency=usd", "amount=1")
		},
		"another amount of ours": func(_ *testing.T, _ *fixture, b *Bill, _ string) {
			b.Items[0].Cents, b.Items[1].Cents = b.Items[0].Cents+1, b.Items[1].Cents-1
		},
		"a second invoice": func(t *testing.T, f *fixture, b *Bill, _ string) {
			f.byHand(t, "/v1/invoices", "customer="+b.Customer, "metadata[corvo_invoice]="+b.Number)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			b := bill(f.customer(t))
			f.fake.Inject(stripefake.Fault{Kind: stripefake.LoseRequest, Route: "POST /v1/invoices/{id}/finalize"})
			if _, err := f.CollectInvoice(t.Context(), b); !errors.Is(err, ErrUnavailable) {
				t.Fatal(err)
			}
			change(t, f, &b, f.fake.Objects("invoice")[0]["id"].(string))
			if _, err := f.CollectInvoice(t.Context(), b); !errors.Is(err, ErrMismatch) {
				t.Errorf("%v", err)
			}
			for _, in := range f.fake.Objects("invoice") {
				if in["status"] != "draft" {
					t.Errorf("an invoice is %v", in["status"])
				}
			}
		})
	}
}

func TestTwoClosersMakeOneInvoice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := bill(f.customer(t))
	collect := func() error {
		_, err := f.CollectInvoice(t.Context(), b)
		return err
	}
	done := make(chan error)
	for range 2 {
		go func() { done <- collect() }()
	}
	for range 2 {
		// One of them may learn that the other one is at work, and repeats.
		if err := <-done; err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrRefused) {
			t.Error(err)
		}
	}
	if err := collect(); err != nil {
		t.Error(err)
	}
	if invoices, items := f.fake.Objects("invoice"), f.fake.Objects("invoiceitem"); len(invoices) != 1 || len(items) != 4 || invoices[0]["status"] != "open" {
		t.Errorf("%d items, invoices %v", len(items), invoices)
	}
}

func TestAnInvoiceWithTaxNeedsAnAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	unknown := acme
	unknown.Address = Address{}
	customer, err := f.EnsureCustomer(t.Context(), unknown)
	if err != nil {
		t.Fatal(err)
	}
	var refused *Error
	if _, err := f.CollectInvoice(t.Context(), bill(customer)); !errors.Is(err, ErrRefused) || !errors.As(err, &refused) || refused.Code != "customer_tax_location_invalid" {
		t.Fatal(err)
	}
	f.customer(t)
	if in, err := f.CollectInvoice(t.Context(), bill(customer)); err != nil || in.Status != Open || in.TaxCents != 247 {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestAPaymentIsChargedOncePerAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	customer := f.customer(t)
	in, err := f.CollectInvoice(t.Context(), bill(customer))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.PayInvoice(t.Context(), in.ID, "day-0"); !errors.Is(err, ErrRefused) {
		t.Errorf("without a card: %v", err)
	}
	f.saveCard(t, customer)
	f.fake.DeclinePayments(customer, true)
	for range 2 {
		if _, err := f.PayInvoice(t.Context(), in.ID, "day-3"); !errors.Is(err, ErrDeclined) {
			t.Errorf("declined: %v", err)
		}
	}
	if n := f.fake.Objects("invoice")[0]["attempt_count"]; n != 1.0 {
		t.Errorf("%v attempts, want 1", n)
	}
	f.fake.DeclinePayments(customer, false)
	f.fake.Inject(stripefake.Fault{Kind: stripefake.LoseResponse, Route: "POST /v1/invoices/{id}/pay"})
	if _, err := f.PayInvoice(t.Context(), in.ID, "day-7"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("the response was lost: %v", err)
	}
	f.clock.Advance(25 * time.Hour)
	if in, err = f.PayInvoice(t.Context(), in.ID, "day-7"); err != nil || in.Status != Paid || in.PaidCents != 2716 {
		t.Errorf("%+v, %v", in, err)
	}
	if n := f.fake.Objects("invoice")[0]["attempt_count"]; n != 2.0 {
		t.Errorf("%v attempts, want 2", n)
	}
	if _, err := f.VoidInvoice(t.Context(), in.ID); !errors.Is(err, ErrMismatch) {
		t.Errorf("a paid invoice was voided: %v", err)
	}
}

func TestAVoidInvoiceIsAMismatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := bill(f.customer(t))
	in, err := f.CollectInvoice(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if in, err = f.VoidInvoice(t.Context(), in.ID); err != nil || in.Status != Void {
			t.Errorf("%+v, %v", in, err)
		}
	}
	if _, err := f.CollectInvoice(t.Context(), b); !errors.Is(err, ErrMismatch) {
		t.Errorf("collected again: %v", err)
	}
	if _, err := f.PayInvoice(t.Context(), in.ID, "day-0"); !errors.Is(err, ErrMismatch) {
		t.Errorf("paid: %v", err)
	}
}

func TestBillsAreValidatedBeforeACall(t *testing.T) {
	t.Parallel()
	many := func(n int) (items []Item) {
		for i := range n {
			items = append(items, Item{Name: fmt.Sprint(i), Cents: 1})
		}
		return items
	}
	for name, c := range map[string]struct {
		change func(*Bill)
		ok     bool
	}{
		"as it is":          {func(*Bill) {}, true},
		"no number":         {func(b *Bill) { b.Number = "" }, false},
		"no customer":       {func(b *Bill) { b.Customer = "" }, false},
		"no organisation":   {func(b *Bill) { b.Org = "" }, false},
		"an item twice":     {func(b *Bill) { b.Items[1].Name = b.Items[0].Name }, false},
		"an item's name":    {func(b *Bill) { b.Items[1].Name = "" }, false},
		"another sum":       {func(b *Bill) { b.TotalCents++ }, false},
		"the least total":   {func(b *Bill) { b.Items, b.TotalCents = []Item{{"a", "", MinCollectCents}}, MinCollectCents }, true},
		"too small":         {func(b *Bill) { b.Items, b.TotalCents = []Item{{"a", "", MinCollectCents - 1}}, MinCollectCents-1 }, false},
		"the most items":    {func(b *Bill) { b.Items, b.TotalCents = many(MaxItems), MaxItems }, true},
		"one item too many": {func(b *Bill) { b.Items, b.TotalCents = many(MaxItems+1), MaxItems+1 }, false},
	} {
		b := bill("cus_1")
		c.change(&b)
		if err := b.Validate(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := newFixture(t)
	if _, err := f.CollectInvoice(t.Context(), Bill{}); !errors.Is(err, ErrInvalid) || len(f.fake.Calls()) != 0 {
		t.Errorf("%v", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wrong := New(Config{Key: "sk_test_other", URL: fakeURL, HTTP: f.http})
	if _, err := wrong.EnsureCustomer(t.Context(), acme); !errors.Is(err, ErrKey) {
		t.Errorf("another key: %v", err)
	}
	f.fake.Outage(24 * time.Hour)
	var answer *Error
	if _, err := f.EnsureCustomer(t.Context(), acme); !errors.Is(err, ErrUnavailable) || !errors.As(err, &answer) || answer.RetryAfter != DefaultRetryAfter {
		t.Errorf("an outage: %v", err)
	}
	f.clock.Advance(24 * time.Hour)
	f.fake.Inject(stripefake.Fault{Kind: stripefake.RateLimit, RetryAfter: 9 * time.Hour})
	if _, err := f.EnsureCustomer(t.Context(), acme); !errors.As(err, &answer) || answer.RetryAfter != maxRetryAfter {
		t.Errorf("a rate limit: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.EnsureCustomer(cancelled, acme); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
	if _, err := f.Invoice(t.Context(), "in_none"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "resource_missing") {
		t.Errorf("an unknown invoice: %v", err)
	}
}

// saveCard saves a card on the page of a checkout session and makes it pay invoices.
func (f *fixture) saveCard(t *testing.T, customer string) {
	t.Helper()
	url, err := f.CheckoutSession(t.Context(), customer, "https://app.example/done", "https://app.example/back")
	if err != nil {
		t.Fatal(err)
	}
	id := url[strings.LastIndex(url, "/")+1:]
	if _, err := f.FinishCheckout(t.Context(), id); !errors.Is(err, ErrMismatch) {
		t.Errorf("an open session: %v", err)
	}
	resp, err := f.http.Post(url, "", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for range 2 {
		if got, err := f.FinishCheckout(t.Context(), id); err != nil || got != customer {
			t.Fatalf("%s, %v", got, err)
		}
	}
}
