package stripe

import (
	"context"
	"fmt"

	stripego "github.com/stripe/stripe-go/v76"
)

// MinCollectCents is the least total that Stripe collects in USD. Smaller totals are carried forward.
const MinCollectCents = 50

// MaxItems is the largest number of items of an invoice, which Stripe limits to 250.
const MaxItems = 250

// Bill is an invoice of ours, in whole cents, for Stripe to collect.
type Bill struct {
	Number      string // of our invoice, which names it for ever
	Org         string // id of the organisation
	Customer    string // id of its customer, from EnsureCustomer
	Description string // for the customer, such as "Corvo, February 2026"
	Items       []Item
	TotalCents  int64 // the sum of the items
	Taxed       bool  // whether Stripe computes and adds the tax
}

// Item is the amount of one meter, fee or discount.
type Item struct {
	Name        string // such as the name of a meter, unique in the bill
	Description string // for the customer
	Cents       int64  // negative = a discount or credit
}

// Validate returns ErrInvalid if the bill breaks a rule.
func (b Bill) Validate() error {
	if b.Number == "" || b.Org == "" || b.Customer == "" {
		return invalid("invoice %q of organisation %q and customer %q lacks one of them", b.Number, b.Org, b.Customer)
	}
	if len(b.Items) > MaxItems {
		return invalid("invoice %s has %d items, and the limit is %d", b.Number, len(b.Items), MaxItems)
	}
	if b.TotalCents < MinCollectCents {
		return invalid("invoice %s has a total of %d cents, and the least is %d: carry it forward", b.Number, b.TotalCents, MinCollectCents)
	}
	names, sum := map[string]bool{}, int64(0)
	for _, item := range b.Items {
		if item.Name == "" || names[item.Name] {
			return invalid("invoice %s has the item %q twice, or one without a name", b.Number, item.Name)
		}
		names[item.Name] = true
		sum += item.Cents
	}
	if sum != b.TotalCents {
		return invalid("the items of invoice %s are %d cents, and its total is %d", b.Number, sum, b.TotalCents)
	}
	return nil
}

// InvoiceStatus is the state of an invoice in Stripe.
type InvoiceStatus string

// The states of an invoice in Stripe.
const (
	Draft         InvoiceStatus = "draft"
	Open          InvoiceStatus = "open"
	Paid          InvoiceStatus = "paid"
	Void          InvoiceStatus = "void"
	Uncollectible InvoiceStatus = "uncollectible"
)

// Invoice is an invoice in Stripe.
type Invoice struct {
	ID            string
	Number        string // of Stripe's document; "" = a draft
	Ours          string // number of our invoice
	Org, Customer string
	Status        InvoiceStatus
	SubtotalCents int64 // without tax
	TaxCents      int64
	TotalCents    int64
	PaidCents     int64
	URL, PDF      string // of Stripe's document; "" = a draft
}

func fromStripe(in *stripego.Invoice) Invoice {
	out := Invoice{
		ID: in.ID, Number: in.Number, Ours: in.Metadata[metaInvoice], Org: in.Metadata[metaOrg], Status: InvoiceStatus(in.Status),
		SubtotalCents: in.TotalExcludingTax, TaxCents: in.Tax, TotalCents: in.Total, PaidCents: in.AmountPaid, URL: in.HostedInvoiceURL, PDF: in.InvoicePDF,
	}
	if in.Customer != nil {
		out.Customer = in.Customer.ID
	}
	return out
}

// CollectInvoice makes a final invoice of the bill in Stripe and returns it. It does not ask for payment. A repeat goes on
// where the last call stopped, and returns the same invoice. It returns ErrMismatch if Stripe has the invoice twice, void, or
// with other items: a draft that differs is never finalised. If Stripe cannot compute the tax, for instance because the
// customer has no address, it returns ErrRefused, and the draft remains for a repeat.
func (c *Client) CollectInvoice(ctx context.Context, b Bill) (Invoice, error) {
	if err := b.Validate(); err != nil {
		return Invoice{}, err
	}
	in, err := c.ensureDraft(ctx, b)
	if err != nil {
		return Invoice{}, err
	}
	// Add the items that the draft lacks, and refuse any other difference.
	if err := c.ensureItems(ctx, b, in); err != nil {
		return Invoice{}, err
	}
	// Read the sums of Stripe before the invoice becomes final.
	if in, err = c.api.Invoices.Get(in.ID, &stripego.InvoiceParams{Params: params(ctx, "")}); err != nil {
		return Invoice{}, translate(err)
	}
	if in.TotalExcludingTax != b.TotalCents || in.Currency != stripego.CurrencyUSD {
		return Invoice{}, mismatch("%s of invoice %s is %d %s without tax, and our total is %d usd", in.ID, b.Number, in.TotalExcludingTax, in.Currency, b.TotalCents)
	}
	if in.Status == stripego.InvoiceStatusDraft {
		finalize := &stripego.InvoiceFinalizeInvoiceParams{Params: params(ctx, ""), AutoAdvance: stripego.Bool(false)}
		if in, err = c.api.Invoices.FinalizeInvoice(in.ID, finalize); err != nil {
			return Invoice{}, translate(err)
		}
	}
	return fromStripe(in), nil
}

// ensureDraft returns the customer's invoice with our number, and creates a draft if there is none.
func (c *Client) ensureDraft(ctx context.Context, b Bill) (found *stripego.Invoice, err error) {
	list := c.api.Invoices.List(&stripego.InvoiceListParams{ListParams: listing(ctx), Customer: stripego.String(b.Customer)})
	for list.Next() {
		in := list.Invoice()
		if in.Metadata[metaInvoice] != b.Number {
			continue
		}
		if found != nil {
			return nil, mismatch("invoice %s is %s and %s in Stripe: delete or void one of them and remove %s from its metadata", b.Number, found.ID, in.ID, metaInvoice)
		}
		found = in
	}
	if err := translate(list.Err()); err != nil {
		return nil, err
	}
	if found != nil {
		if found.Status == stripego.InvoiceStatusVoid || found.Status == stripego.InvoiceStatusUncollectible {
			return nil, mismatch("invoice %s is %s in Stripe (%s): void it here too", b.Number, found.Status, found.ID)
		}
		return found, nil
	}
	create := &stripego.InvoiceParams{
		Params: params(ctx, "corvo-invoice-"+b.Org+"-"+b.Number), Customer: stripego.String(b.Customer), Currency: stripego.String("usd"),
		AutoAdvance: stripego.Bool(false), PendingInvoiceItemsBehavior: stripego.String("exclude"),
		CollectionMethod: stripego.String("charge_automatically"), AutomaticTax: &stripego.InvoiceAutomaticTaxParams{Enabled: stripego.Bool(b.Taxed)},
	}
	if b.Description != "" {
		create.Description = stripego.String(b.Description)
	}
	create.AddMetadata(metaInvoice, b.Number)
	create.AddMetadata(metaOrg, b.Org)
	found, err = c.api.Invoices.New(create)
	return found, translate(err)
}

// ensureItems creates the items that the draft lacks. It returns ErrMismatch if an item has another amount, if there is an
// item that the bill does not have, or if an item is missing and the invoice is final.
func (c *Client) ensureItems(ctx context.Context, b Bill, in *stripego.Invoice) error {
	wanted := map[string]int64{}
	for _, item := range b.Items {
		wanted[item.Name] = item.Cents
	}
	has := map[string]bool{}
	list := c.api.InvoiceItems.List(&stripego.InvoiceItemListParams{ListParams: listing(ctx), Invoice: stripego.String(in.ID)})
	for list.Next() {
		item := list.InvoiceItem()
		name := item.Metadata[metaItem]
		if cents, ok := wanted[name]; !ok || has[name] || cents != item.Amount {
			return mismatch("%s of invoice %s has the item %q of %d cents (%s), which our invoice has not", in.ID, b.Number, name, item.Amount, item.ID)
		}
		has[name] = true
	}
	if err := translate(list.Err()); err != nil {
		return err
	}
	for _, item := range b.Items {
		if has[item.Name] {
			continue
		}
		if in.Status != stripego.InvoiceStatusDraft {
			return mismatch("%s of invoice %s is %s and lacks the item %q", in.ID, b.Number, in.Status, item.Name)
		}
		create := &stripego.InvoiceItemParams{
			Params: params(ctx, fmt.Sprintf("corvo-item-%s-%s", in.ID, item.Name)), Customer: stripego.String(b.Customer), Invoice: stripego.String(in.ID),
			Currency: stripego.String("usd"), Amount: stripego.Int64(item.Cents), Description: stripego.String(item.Description), Discountable: stripego.Bool(false),
		}
		create.AddMetadata(metaItem, item.Name)
		if _, err := c.api.InvoiceItems.New(create); err != nil {
			return translate(err)
		}
	}
	return nil
}

// Invoice returns an invoice of Stripe by its id. Handlers of webhooks fetch it, because deliveries may be old.
func (c *Client) Invoice(ctx context.Context, id string) (Invoice, error) {
	in, err := c.api.Invoices.Get(id, &stripego.InvoiceParams{Params: params(ctx, "")})
	if err != nil {
		return Invoice{}, translate(err)
	}
	return fromStripe(in), nil
}

// PayInvoice asks Stripe to charge the customer's card for an open invoice. The attempt names the decision to charge, such as
// "day-3": a repeat of the same attempt within 24 hours charges nothing again, not even after a decline. An invoice that is
// paid is returned as it is. It returns ErrDeclined if the bank declines, and ErrMismatch for a draft or void invoice.
func (c *Client) PayInvoice(ctx context.Context, id, attempt string) (Invoice, error) {
	in, err := c.Invoice(ctx, id)
	switch {
	case err != nil || in.Status == Paid:
		return in, err
	case in.Status != Open:
		return in, mismatch("%s is %s and cannot be paid", id, in.Status)
	}
	pay := &stripego.InvoicePayParams{Params: params(ctx, "corvo-pay-"+id+"-"+attempt), OffSession: stripego.Bool(true)}
	paid, err := c.api.Invoices.Pay(id, pay)
	if err != nil {
		return in, translate(err)
	}
	return fromStripe(paid), nil
}

// VoidInvoice voids an open invoice. A repeat changes nothing. It returns ErrMismatch for an invoice that is a draft or paid.
func (c *Client) VoidInvoice(ctx context.Context, id string) (Invoice, error) {
	in, err := c.Invoice(ctx, id)
	switch {
	case err != nil || in.Status == Void:
		return in, err
	case in.Status != Open && in.Status != Uncollectible:
		return in, mismatch("%s is %s and cannot be voided", id, in.Status)
	}
	voided, err := c.api.Invoices.VoidInvoice(id, &stripego.InvoiceVoidInvoiceParams{Params: params(ctx, "")})
	if err != nil {
		return in, translate(err)
	}
	return fromStripe(voided), nil
}
