package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// Invoice is a final invoice.
type Invoice struct {
	Number         int64
	Org            tenancy.OrgID
	StartNs, EndNs int64 // the month
	Currency       string
	Status         billing.InvoiceStatus
	billing.InvoiceSums
	LLMCost     billing.LLMCost
	Complete    bool   // all sources were complete; else the grace was over
	RatedHash   []byte // of the usage and the plans that the lines were rated from
	FinalisedNs int64
	Lines       []billing.InvoiceLine // only of Store.Invoice
}

// invoicePrefix begins the text of an invoice's number.
const invoicePrefix = "INV-"

// InvoiceNumber returns the text of an invoice's number, such as INV-000012.
func InvoiceNumber(n int64) string { return fmt.Sprintf("%s%06d", invoicePrefix, n) }

// ParseInvoiceNumber returns the number that a text stands for; ok is false if InvoiceNumber returns no such text.
func ParseInvoiceNumber(text string) (n int64, ok bool) {
	digits, _ := strings.CutPrefix(text, invoicePrefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n > 0 && InvoiceNumber(n) == text
}

const invoiceColumns = "number, org, start_ns, end_ns, currency, status, rounding, subtotal, credits, carried, total, llm_cost, complete, rated_sha256, finalised_ns"

const selectInvoice = "SELECT " + invoiceColumns + " FROM invoices"

func scanInvoice(rows *sql.Rows) (i Invoice, err error) {
	var cost []byte
	err = rows.Scan(&i.Number, &i.Org, &i.StartNs, &i.EndNs, &i.Currency, &i.Status, &i.Rounding, &i.Subtotal, &i.Credits, &i.Carried, &i.Total, &cost, &i.Complete, &i.RatedHash, &i.FinalisedNs)
	if err == nil {
		err = json.Unmarshal(cost, &i.LLMCost)
	}
	return i, err
}

const selectInvoiceLine = "SELECT l.month_ns, l.item, l.namespace, l.price_version, l.tier, l.quantity, l.per, l.unit_price, l.amount FROM invoice_lines l"

func scanInvoiceLine(rows *sql.Rows) (l billing.InvoiceLine, err error) {
	var quantity string
	if err = rows.Scan(&l.MonthNs, &l.Item, &l.Namespace, &l.PriceVersion, &l.Tier, &quantity, &l.Per, &l.UnitPrice, &l.Amount); err != nil {
		return l, err
	}
	return l, l.Quantity.UnmarshalJSON([]byte(quantity))
}

// putInvoice writes an invoice with its lines.
func (tx *Tx) putInvoice(i Invoice, cost []byte) error {
	err := tx.put("INSERT INTO invoices ("+invoiceColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		i.Number, string(i.Org), i.StartNs, i.EndNs, i.Currency, string(i.Status), int64(i.Rounding), int64(i.Subtotal), int64(i.Credits), int64(i.Carried), int64(i.Total),
		cost, i.Complete, i.RatedHash, i.FinalisedNs)
	if err != nil {
		return err
	}
	for at, l := range i.Lines {
		err := tx.put("INSERT INTO invoice_lines (number, position, month_ns, item, namespace, price_version, tier, quantity, per, unit_price, amount) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			i.Number, at, l.MonthNs, l.Item, l.Namespace, l.PriceVersion, l.Tier, l.Quantity.String(), l.Per, int64(l.UnitPrice), int64(l.Amount))
		if err != nil {
			return err
		}
	}
	return nil
}

// Invoices lists the invoices of an organisation with a number below before, the newest first and without their lines: at
// most limit, and at most MaxPage. 0 = from the newest on.
func (s *Store) Invoices(ctx context.Context, org tenancy.OrgID, before int64, limit int) ([]Invoice, error) {
	return read(ctx, s, func(r reader) ([]Invoice, error) {
		// The numbers of an organisation's invoices rise with their months.
		return list(r, scanInvoice, selectInvoice+" WHERE org = ?1 AND (?2 = 0 OR number < ?2) ORDER BY end_ns DESC LIMIT ?3", string(org), before, page(limit))
	})
}

// Invoice finds an invoice of an organisation by number, else NOT_FOUND.
func (s *Store) Invoice(ctx context.Context, org tenancy.OrgID, number int64) (Invoice, error) {
	return read(ctx, s, func(r reader) (Invoice, error) {
		i, found, err := first(r, scanInvoice, selectInvoice+" WHERE number = ? AND org = ?", number, string(org))
		if err == nil && !found {
			err = api.Errorf(api.NotFound, "there is no invoice %s", InvoiceNumber(number))
		}
		if err != nil {
			return Invoice{}, err
		}
		i.Lines, err = list(r, scanInvoiceLine, selectInvoiceLine+" WHERE l.number = ? ORDER BY l.position", number)
		return i, err
	})
}
