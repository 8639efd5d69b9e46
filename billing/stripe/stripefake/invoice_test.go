package stripefake

import "testing"

func TestAnInvoiceIsADraftThenOpenThenPaid(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	customer := f.customer()
	id := f.do("POST", "/v1/invoices", "customer="+customer, "auto_advance=false", "pending_invoice_items_behavior=exclude", "automatic_tax[enabled]=true")["id"].(string)
	item := func(amount string) []string {
		return []string{"customer=" + customer, "invoice=" + id, "currency=usd", "amount=" + amount}
	}
	f.do("POST", "/v1/invoiceitems", item("1000")...)
	f.do("POST", "/v1/invoiceitems", item("-10")...)
	f.refuses(400, "parameter_invalid_integer", "POST", "/v1/invoiceitems", item("0.5")...)
	f.refuses(400, "", "POST", "/v1/invoices/"+id+"/pay")
	o := f.do("POST", "/v1/invoices/"+id+"/finalize", "auto_advance=false")
	if o["status"] != "open" || o["number"] != "FAKE-0001" || o["total_excluding_tax"] != 990.0 || o["tax"] != 188.0 || o["total"] != 1178.0 || o["invoice_pdf"] == nil {
		t.Errorf("%v", o)
	}
	f.refuses(400, "invoice_not_editable", "POST", "/v1/invoices/"+id+"/finalize")
	f.refuses(400, "invoice_not_editable", "POST", "/v1/invoiceitems", item("1")...)
	f.refuses(400, "", "POST", "/v1/invoices/"+id+"/pay") // no payment method
	f.saveCard(customer)
	f.DeclinePayments(customer, true)
	f.refuses(402, "card_declined", "POST", "/v1/invoices/"+id+"/pay")
	f.DeclinePayments(customer, false)
	if o := f.do("POST", "/v1/invoices/"+id+"/pay"); o["status"] != "paid" || o["amount_remaining"] != 0.0 || o["attempt_count"] != 2.0 {
		t.Errorf("%v", o)
	}
	f.refuses(400, "", "POST", "/v1/invoices/"+id+"/pay")
	f.refuses(400, "", "POST", "/v1/invoices/"+id+"/void")
	if items := data(f.do("GET", "/v1/invoiceitems", "invoice="+id)); len(items) != 2 {
		t.Errorf("items: %v", items)
	}
}

func TestAnInvoiceWithTaxNeedsAnAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	customer := f.do("POST", "/v1/customers")["id"].(string)
	id := f.do("POST", "/v1/invoices", "customer="+customer, "automatic_tax[enabled]=true")["id"].(string)
	f.refuses(400, "customer_tax_location_invalid", "POST", "/v1/invoices/"+id+"/finalize")
	f.do("POST", "/v1/customers/"+customer, "address[country]=US", "address[postal_code]=10001")
	if o := f.do("POST", "/v1/invoices/"+id+"/finalize"); o["status"] != "paid" {
		t.Errorf("an invoice of nothing is not paid: %v", o)
	}
}

func TestAnOpenInvoiceIsVoided(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	customer := f.customer()
	id := f.do("POST", "/v1/invoices", "customer="+customer)["id"].(string)
	f.do("POST", "/v1/invoiceitems", "customer="+customer, "invoice="+id, "currency=usd", "amount=1")
	f.refuses(400, "", "POST", "/v1/invoices/"+id+"/void")
	f.do("POST", "/v1/invoices/"+id+"/finalize")
	if o := f.do("POST", "/v1/invoices/"+id+"/void"); o["status"] != "void" || o["number"] == nil {
		t.Errorf("%v", o)
	}
	f.refuses(400, "", "POST", "/v1/invoices/"+id+"/pay")
	if found := data(f.do("GET", "/v1/invoices", "customer="+customer, "status=void")); len(found) != 1 {
		t.Errorf("%v", found)
	}
}
