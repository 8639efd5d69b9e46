package stripefake

import (
	"fmt"
	"net/http"
	"strconv"
)

func (s *Server) createInvoice(c *call) (object, *failure) {
	if err := c.need("customer"); err != nil {
		return nil, err
	}
	if _, err := s.find("customer", c.form.Get("customer")); err != nil {
		return nil, err
	}
	if c.form.Get("pending_invoice_items_behavior") == "include" {
		return nil, invalid("", "pending_invoice_items_behavior", "The fake has no pending invoice items.")
	}
	if c.has("currency") && c.form.Get("currency") != "usd" {
		return nil, invalid("", "currency", "The fake knows only usd.")
	}
	o := s.create("invoice", "in", object{
		"customer": c.form.Get("customer"), "auto_advance": c.form.Get("auto_advance") == "true", "collection_method": "charge_automatically",
		"automatic_tax": object{"enabled": c.form.Get("automatic_tax[enabled]") == "true", "liability": nil, "status": nil},
		"currency":      "usd", "description": c.text("description"), "metadata": c.pairs("metadata"), "status": "draft", "number": nil, "paid": false,
		"attempted": false, "attempt_count": 0, "hosted_invoice_url": nil, "invoice_pdf": nil, "billing_reason": "manual", "default_payment_method": nil,
		"status_transitions": object{"finalized_at": nil, "marked_uncollectible_at": nil, "paid_at": nil, "voided_at": nil}, "amount_paid": 0,
	})
	s.total(o)
	s.emit("invoice.created", o)
	return o, nil
}

// total computes the sums of a draft.
func (s *Server) total(invoice object) {
	var sum int64
	for _, item := range s.of("invoiceitem").byID {
		if item["invoice"] == invoice["id"] {
			sum += item["amount"].(int64)
		}
	}
	total := sum
	invoice["tax"] = nil
	if tax := invoice["automatic_tax"].(object); tax["enabled"] == true {
		tax["status"] = "requires_location_inputs"
		if s.of("customer").byID[invoice["customer"].(string)]["address"] != nil {
			tax["status"] = "complete"
			invoice["tax"] = (sum*s.cfg.TaxPercent + 50) / 100
			total += invoice["tax"].(int64)
		}
	}
	invoice["subtotal"], invoice["total"], invoice["total_excluding_tax"] = sum, total, sum
	invoice["amount_due"], invoice["amount_remaining"] = total, total
}

func (s *Server) getInvoice(c *call) (object, *failure) {
	o, err := s.find("invoice", c.PathValue("id"))
	if err == nil && o["status"] == "draft" {
		s.total(o)
	}
	return o, err
}

func (s *Server) listInvoices(c *call) (object, *failure) {
	return s.page(c, "invoice", func(o object) bool {
		return (!c.has("customer") || o["customer"] == c.form.Get("customer")) && (!c.has("status") || o["status"] == c.form.Get("status"))
	})
}

func (s *Server) createItem(c *call) (object, *failure) {
	if err := c.need("customer", "invoice", "amount", "currency"); err != nil {
		return nil, err
	}
	invoice, err := s.find("invoice", c.form.Get("invoice"))
	if err != nil {
		return nil, err
	}
	amount, parse := strconv.ParseInt(c.form.Get("amount"), 10, 64)
	switch {
	case parse != nil:
		return nil, invalid("parameter_invalid_integer", "amount", "Invalid integer: %s", c.form.Get("amount"))
	case invoice["status"] != "draft":
		return nil, invalid("invoice_not_editable", "invoice", "You can only add items to a draft invoice.")
	case invoice["customer"] != c.form.Get("customer"):
		return nil, invalid("", "customer", "The invoice belongs to another customer.")
	}
	o := s.create("invoiceitem", "ii", object{
		"amount": amount, "currency": c.form.Get("currency"), "customer": c.form.Get("customer"), "invoice": c.form.Get("invoice"),
		"description": c.text("description"), "metadata": c.pairs("metadata"), "date": s.cfg.Now().Unix(), "quantity": 1, "unit_amount": amount,
		"discountable": c.form.Get("discountable") != "false", "proration": false, "subscription": nil, "tax_rates": []any{},
	})
	delete(o, "created") // invoice items have a date instead
	s.total(invoice)
	return o, nil
}

func (s *Server) listItems(c *call) (object, *failure) {
	return s.page(c, "invoiceitem", func(o object) bool {
		return (!c.has("invoice") || o["invoice"] == c.form.Get("invoice")) && (!c.has("customer") || o["customer"] == c.form.Get("customer"))
	})
}

func (s *Server) finalizeInvoice(c *call) (object, *failure) {
	o, err := s.find("invoice", c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if o["status"] != "draft" {
		return nil, invalid("invoice_not_editable", "", "This invoice is already finalized, you can't re-finalize a non-draft invoice.")
	}
	s.total(o)
	if tax := o["automatic_tax"].(object); tax["enabled"] == true && tax["status"] != "complete" {
		return nil, invalid("customer_tax_location_invalid", "", "The customer's location isn't recognized. Set a valid customer address.")
	}
	number := 1
	for _, other := range s.of("invoice").byID {
		if other["number"] != nil {
			number++
		}
	}
	o["number"] = fmt.Sprintf("FAKE-%04d", number)
	o["status"] = "open"
	o["hosted_invoice_url"] = c.base + "/pages/invoice/" + o["id"].(string)
	o["invoice_pdf"] = c.base + "/pages/invoice/" + o["id"].(string) + "/pdf"
	o["auto_advance"] = c.form.Get("auto_advance") == "true"
	o["status_transitions"].(object)["finalized_at"] = s.cfg.Now().Unix()
	s.emit("invoice.finalized", o)
	if o["total"].(int64) <= 0 {
		s.paid(o)
	}
	return o, nil
}

// paid marks an invoice as paid.
func (s *Server) paid(o object) {
	o["status"], o["paid"], o["amount_paid"], o["amount_remaining"] = "paid", true, o["amount_due"], 0
	o["status_transitions"].(object)["paid_at"] = s.cfg.Now().Unix()
	s.emit("invoice.paid", o)
}

func (s *Server) payInvoice(c *call) (object, *failure) {
	o, err := s.find("invoice", c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	switch o["status"] {
	case "paid":
		return nil, invalid("", "", "Invoice is already paid")
	case "open":
	default:
		return nil, invalid("", "", "This invoice can't be paid, because its status is %s.", o["status"])
	}
	customer := s.of("customer").byID[o["customer"].(string)]
	if customer["invoice_settings"].(object)["default_payment_method"] == nil {
		return nil, invalid("", "", "This customer has no attached payment source or default payment method.")
	}
	o["attempted"] = true
	o["attempt_count"] = o["attempt_count"].(int) + 1
	if s.declines[o["customer"].(string)] {
		s.emit("invoice.payment_failed", o)
		return nil, &failure{status: http.StatusPaymentRequired, kind: "card_error", code: "card_declined", message: "Your card was declined."}
	}
	s.paid(o)
	return o, nil
}

func (s *Server) voidInvoice(c *call) (object, *failure) {
	o, err := s.find("invoice", c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if o["status"] != "open" {
		return nil, invalid("", "", "You can only void an open invoice, and its status is %s.", o["status"])
	}
	o["status"] = "void"
	o["status_transitions"].(object)["voided_at"] = s.cfg.Now().Unix()
	s.emit("invoice.voided", o)
	return o, nil
}
