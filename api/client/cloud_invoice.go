package client

import (
	"context"

	"github.com/corvo/corvo/api"
)

// InvoicePreview returns the invoice of the running month, as if no more usage arrived.
func (c *Cloud) InvoicePreview(ctx context.Context, org string) (api.InvoicePreview, error) {
	return get[api.InvoicePreview](ctx, c.Client, cloudPath("orgs", org, "invoices", "preview"))
}

// Invoices lists an organisation's final invoices without their lines, the newest first.
func (c *Cloud) Invoices(ctx context.Context, org string) ([]api.InvoiceSummary, error) {
	return all[api.InvoiceSummary](ctx, c.Client, cloudPath("orgs", org, "invoices"), nil)
}

// Invoice returns a final invoice of an organisation by its number, such as INV-000012.
func (c *Cloud) Invoice(ctx context.Context, org, number string) (api.Invoice, error) {
	return get[api.Invoice](ctx, c.Client, cloudPath("orgs", org, "invoices", number))
}

// InvoicePreviewCSV returns the invoice of the running month as CSV, in the columns of FOCUS.
func (c *Cloud) InvoicePreviewCSV(ctx context.Context, org string) ([]byte, error) {
	return get[plainText](ctx, c.Client, cloudPath("orgs", org, "invoices", "preview")+"?format=csv")
}

// plainText is a response that is not JSON.
type plainText []byte

func (t *plainText) read(text []byte) error {
	*t = text
	return nil
}
