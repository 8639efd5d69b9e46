package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy"
)

// FinaliseInvoice makes the invoice of an organisation for a month (ADR 0091).

// MaxInvoiceLines bounds the lines of an invoice, and MaxLLMCost the JSON of its cost of model calls, in bytes.
const (
	MaxInvoiceLines = 50_000
	MaxLLMCost      = 1 << 20
)

// fromInvoiceLine converts a line for the op.
func fromInvoiceLine(l billing.InvoiceLine) *InvoiceLine {
	return &InvoiceLine{
		MonthNs: l.MonthNs, Item: l.Item, Namespace: l.Namespace, PriceVersion: l.PriceVersion, Tier: uint32(l.Tier),
		Quantity: l.Quantity.String(), Per: l.Per, UnitPrice: int64(l.UnitPrice), Amount: int64(l.Amount),
	}
}

// line converts a line of the op.
func (l *InvoiceLine) line() (billing.InvoiceLine, error) {
	out := billing.InvoiceLine{MonthNs: l.GetMonthNs(), Line: billing.Line{
		Item: l.GetItem(), Namespace: l.GetNamespace(), PriceVersion: l.GetPriceVersion(), Tier: int(l.GetTier()),
		Per: l.GetPer(), UnitPrice: money.Nano(l.GetUnitPrice()), Amount: money.Nano(l.GetAmount()),
	}}
	err := out.Quantity.UnmarshalJSON([]byte(l.GetQuantity()))
	if err == nil && out.Quantity.String() != l.GetQuantity() {
		err = fmt.Errorf("the quantity %q is not written as %s", l.GetQuantity(), out.Quantity)
	}
	return out, err
}

// Validate refuses an op that no state could accept.
func (o *FinaliseInvoice) Validate() error {
	var p problems
	o.GetMeta().check(&p)
	p.add("org", checkID(o.Org))
	start, end := billing.MonthBefore(o.EndNs)
	if o.EndNs <= 0 || end != o.EndNs {
		p.add("end_ns", fmt.Errorf("is %d, which ends no month", o.EndNs))
	}
	p.add("rated_sha256", checkSize(o.RatedSha256, sha256.Size))
	if len(o.LlmCost) > MaxLLMCost {
		p.add("llm_cost", fmt.Errorf("has %d bytes; at most %d are allowed", len(o.LlmCost), MaxLLMCost))
	} else if err := json.Unmarshal(o.LlmCost, &billing.LLMCost{}); err != nil {
		p.add("llm_cost", fmt.Errorf("is not valid: %w", err))
	}
	if len(o.Lines) > MaxInvoiceLines {
		p.add("lines", fmt.Errorf("has %d entries; at most %d are allowed", len(o.Lines), MaxInvoiceLines))
		return p.err()
	}
	for i, l := range o.Lines {
		field := fmt.Sprintf("lines[%d]", i)
		if l.GetNamespace() != "" {
			p.add(field+".namespace", checkID(l.GetNamespace()))
		}
		p.add(field+".price_version", checkWord(l.GetPriceVersion(), MaxPriceVersion))
		line, err := l.line()
		if err == nil {
			err = line.Check(start)
		}
		p.add(field, err)
	}
	return p.err()
}

// Apply gives the invoice the next number, uses credits, posts the invoice and stamps late usage with its number. It
// refuses with NOT_FOUND an unknown organisation. It refuses with STATE_CONFLICT a month that is not the first one without
// an invoice, a month whose usage may still come, and lines that were rated from other usage. It refuses with
// VALIDATION_ERROR lines whose sum does not fit.
func (o *FinaliseInvoice) Apply(tx *Tx) (*FinaliseInvoiceResult, error) {
	org := tenancy.OrgID(o.Org)
	until, err := invoicedUntil(tx, org)
	if err != nil {
		return nil, err
	}
	start, end := billing.MonthBefore(o.EndNs)
	if start != until {
		return nil, api.Errorf(api.StateConflict, "the next month of organisation %s to be invoiced is %s: rate that one", o.Org, time.Unix(0, until).UTC().Format("2006-01"))
	}
	complete, err := invoiceReady(tx, org, end, tx.clockNs())
	if err != nil {
		return nil, err
	}
	from, err := readRated(tx, org, start, true)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(from.hash(), o.RatedSha256) {
		return nil, api.Errorf(api.StateConflict, "usage or the plan has changed since the lines were rated: rate the month again")
	}
	i := Invoice{Org: org, StartNs: start, EndNs: end, Currency: billing.USD, Complete: complete, RatedHash: o.RatedSha256, FinalisedNs: tx.clockNs()}
	credits, err := tx.sumInvoice(o, &i)
	if err != nil {
		return nil, err
	}
	last, err := number(tx, "SELECT COALESCE(MAX(number), 0) FROM invoices")
	if err != nil {
		return nil, err
	}
	i.Number, i.Status = last+1, i.InvoiceSums.Status()
	if err := tx.putInvoice(i, o.LlmCost); err != nil {
		return nil, err
	}
	if err := tx.useCredits(i, credits); err != nil {
		return nil, err
	}
	if err := tx.postInvoice(o.Meta, i); err != nil {
		return nil, err
	}
	if err := tx.endExpiring(org, end); err != nil {
		return nil, err
	}
	if _, err := tx.exec("UPDATE usage_late SET invoice = ? WHERE org = ? AND invoice = 0", i.Number, o.Org); err != nil {
		return nil, err
	}
	return &FinaliseInvoiceResult{Number: i.Number}, tx.audit(o.Meta, org, InvoiceNumber(i.Number))
}

// sumInvoice sets the lines and the end of an invoice. It returns the credits that the invoice may use.
func (tx *Tx) sumInvoice(o *FinaliseInvoice, i *Invoice) (credits []Credit, err error) {
	for _, l := range o.Lines {
		line, err := l.line()
		if err != nil {
			return nil, err // Validate has refused it
		}
		i.Lines = append(i.Lines, line)
	}
	brought, err := carriedForward(tx, i.Org)
	if err != nil {
		return nil, err
	}
	i.Lines = append(i.Lines, billing.BroughtForward(brought, i.StartNs)...)
	if credits, err = usableCredits(tx, i.Org, i.EndNs); err != nil {
		return nil, err
	}
	var rests money.Count
	for _, c := range credits {
		rests = rests.Add(money.CountOf(int64(c.Rest)))
	}
	if i.InvoiceSums, err = billing.SumInvoice(i.Lines, rests); err != nil {
		return nil, api.Errorf(api.ValidationError, "the invoice of %s: %v", i.Org, err)
	}
	return credits, nil
}

// useCredits takes what an invoice uses from the rests of credits, in their order. A credit without a rest ends.
func (tx *Tx) useCredits(i Invoice, credits []Credit) error {
	need := i.Credits
	for _, c := range credits {
		used := min(need, c.Rest)
		if used == 0 {
			return nil
		}
		need -= used
		status, ended := c.Status, int64(0)
		if used == c.Rest {
			status, ended = CreditUsed, tx.clockNs()
		}
		if err := tx.put("UPDATE credits SET rest = rest - ?, status = ?, ended_ns = ? WHERE id = ?", int64(used), status, ended, c.ID); err != nil {
			return err
		}
		if err := tx.put("INSERT INTO invoice_credits (number, credit, amount) VALUES (?, ?, ?)", i.Number, c.ID, int64(used)); err != nil {
			return err
		}
	}
	return nil
}

// postInvoice posts an invoice. An invoice on which no line has an amount posts nothing.
func (tx *Tx) postInvoice(m *Meta, i Invoice) error {
	postings, err := billing.Postings(i.Lines, i.InvoiceSums)
	if err != nil {
		return api.Errorf(api.ValidationError, "the invoice of %s: %v", i.Org, err)
	}
	if len(postings) == 0 {
		return nil
	}
	return tx.post(billing.Transaction{
		Source: "invoice/" + InvoiceNumber(i.Number), Org: string(i.Org), Currency: i.Currency, Principal: m.GetPrincipal(),
		Memo: "invoice of " + time.Unix(0, i.StartNs).UTC().Format("2006-01"), Postings: postings,
	})
}
