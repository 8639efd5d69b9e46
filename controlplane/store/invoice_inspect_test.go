package store

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/tenancy"
)

// inspectInvoices checks that no unit is on two invoices or on none: the numbers of the invoices have no gaps, their months
// follow each other, and the lines about a month on all invoices sum to its bill without the rows that wait for
// the next invoice. It also checks that the ledger has each invoice.
func inspectInvoices(r reader, book *billing.PlanBook) error {
	all, err := list(r, scanInvoice, selectInvoice+" ORDER BY number")
	if err != nil {
		return err
	}
	until := map[tenancy.OrgID]int64{}
	carried := map[tenancy.OrgID]int64{}
	for at, i := range all {
		if i.Number != int64(at+1) || until[i.Org] != 0 && until[i.Org] != i.StartNs {
			return fmt.Errorf("invoice %d of %s follows %d invoices and %v", i.Number, i.Org, at, time.Unix(0, until[i.Org]).UTC())
		}
		until[i.Org] = i.EndNs
		if err := inspectInvoice(r, i, carried[i.Org]); err != nil {
			return fmt.Errorf("invoice %d: %w", i.Number, err)
		}
		carried[i.Org] = int64(i.Carried)
	}
	for org := range until {
		if err := inspectMonths(r, org, book); err != nil {
			return err
		}
	}
	return inspectStamps(r)
}

// inspectInvoice checks an invoice against its lines, its credits and the ledger.
func inspectInvoice(r reader, i Invoice, brought int64) error {
	lines, err := list(r, scanInvoiceLine, selectInvoiceLine+" WHERE l.number = ? ORDER BY l.position", i.Number)
	if err != nil {
		return err
	}
	sum := int64(i.Rounding)
	for _, l := range lines {
		sum += int64(l.Amount)
		if l.Item == billing.ItemBroughtForward {
			brought -= int64(l.Amount)
		}
	}
	if sum != int64(i.Subtotal) || i.Subtotal != i.Credits+i.Carried+i.Total || brought != 0 {
		return fmt.Errorf("its lines make %d, it is %+v, and of the invoice before %d is missing", sum, i.InvoiceSums, brought)
	}
	used, err := number(r, "SELECT COALESCE(SUM(amount), 0) FROM invoice_credits WHERE number = ?", i.Number)
	if err == nil && used != int64(i.Credits) {
		err = fmt.Errorf("credits of %d are used", used)
	}
	if err != nil {
		return err
	}
	want, err := billing.Postings(lines, i.InvoiceSums)
	if err != nil {
		return err
	}
	posted, err := list(r, func(rows *sql.Rows) (p billing.Posting, err error) { return p, rows.Scan(&p.Account, &p.Amount) },
		"SELECT p.account, p.amount FROM ledger_postings p JOIN ledger_transactions t ON t.number = p.number WHERE t.source = ? ORDER BY p.account", "invoice/"+InvoiceNumber(i.Number))
	if err == nil && fmt.Sprint(posted) != fmt.Sprint(want) {
		err = fmt.Errorf("the ledger has %v, want %v", posted, want)
	}
	return err
}

// inspectMonths rates each invoiced month of an organisation from the journal, and compares it with all lines about it.
func inspectMonths(r reader, org tenancy.OrgID, book *billing.PlanBook) error {
	changes, err := planChanges(r, org)
	if err != nil {
		return err
	}
	var history []billing.PlanChange
	for _, c := range changes {
		history = append(history, c.PlanChange)
	}
	until, err := invoicedUntil(r, org)
	if err != nil {
		return err
	}
	// The rows that wait have a row in usage_late without a number. Only the sum of an hour is never negative.
	rows, err := list(r, func(rows *sql.Rows) (u billing.HourUsage, err error) {
		var quantity int64
		err = rows.Scan(&u.HourNs, &u.Namespace, &u.Meter, &quantity)
		return u, errors.Join(err, u.Quantity.UnmarshalJSON(fmt.Append(nil, quantity)))
	}, `SELECT j.hour_ns, j.namespace, j.meter, SUM(j.quantity) FROM usage_journal j JOIN namespaces n ON n.id = j.namespace
		LEFT JOIN usage_late l ON l.namespace = j.namespace AND l.stream = j.stream AND l.incarnation = j.incarnation AND l.to_seq = j.to_seq AND l.row_no = j.row_no AND l.meter = j.meter
		WHERE n.org = ? AND j.hour_ns < ? AND l.invoice IS NOT 0 GROUP BY 1, 2, 3 ORDER BY 1`, string(org), until)
	if err != nil {
		return err
	}
	months := map[int64][]billing.HourUsage{}
	starts, err := list(r, scalar[int64], "SELECT start_ns FROM invoices WHERE org = ?", string(org))
	if err != nil {
		return err
	}
	for _, start := range starts {
		months[start] = nil
	}
	for _, u := range rows {
		start, _ := billing.MonthBefore(u.HourNs + 1)
		months[start] = append(months[start], u)
	}
	for start, usage := range months {
		charged, err := chargedLines(r, org, start)
		if err != nil {
			return err
		}
		bill, err := billing.Rate(billing.Rating{Month: time.Unix(0, start), Usage: usage, History: history, Book: book})
		if err != nil {
			return err
		}
		if got, want := sumLines(charged), sumLines(bill.Lines); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("for %v %s was charged %v, its rows make %v", time.Unix(0, start).UTC(), org, got, want)
		}
	}
	return nil
}

// sumLines sums lines by what they are about, as texts of quantities and amounts. A fee has no quantity.
func sumLines(lines []billing.Line) map[string]string {
	sums := map[string]billing.Line{}
	for _, l := range lines {
		key := fmt.Sprint(l.Item, " ", l.Namespace, " ", l.PriceVersion, " ", l.Tier)
		sum := sums[key]
		sum.Amount += l.Amount
		if l.Namespace != "" {
			sum.Quantity = sum.Quantity.Add(l.Quantity)
		}
		sums[key] = sum
	}
	texts := map[string]string{}
	for key, sum := range sums {
		if sum != (billing.Line{}) {
			texts[key] = sum.Quantity.String() + " " + sum.Amount.String()
		}
	}
	return texts
}

// inspectStamps checks that each late row is in the journal, and that the invoice that has it is of a later month.
func inspectStamps(r reader) error {
	wrong, err := number(r, `SELECT COUNT(*) FROM usage_late l LEFT JOIN usage_journal j ON l.namespace = j.namespace AND l.stream = j.stream AND l.incarnation = j.incarnation
			AND l.to_seq = j.to_seq AND l.row_no = j.row_no AND l.meter = j.meter LEFT JOIN invoices i ON i.number = l.invoice
		WHERE j.hour_ns IS NULL OR l.invoice <> 0 AND (i.org IS NOT l.org OR i.start_ns <= l.month_ns OR i.finalised_ns < j.applied_ns)`)
	if err == nil && wrong != 0 {
		err = fmt.Errorf("%d late rows are not on the invoice after them", wrong)
	}
	return err
}

// drawInvoice draws the next invoice of an organisation. Its month may not be over, and it may have been rated before the
// ops that were drawn since.
func (s *simulation) drawInvoice() op {
	org := tenancy.OrgID(s.some("SELECT id FROM orgs ORDER BY id", "org_none"))
	if s.stale != nil && s.rng.IntN(4) == 0 {
		return s.stale
	}
	month, err := read(s.t.Context(), s.steady.store(), func(r reader) (MonthUsage, error) {
		until, err := invoicedUntil(r, org)
		if err != nil {
			return MonthUsage{}, err
		}
		return readMonth(r, org, until)
	})
	if refused(err, api.NotFound) == nil {
		return &FinaliseInvoice{Org: string(org), EndNs: november, RatedSha256: hash("none"), LlmCost: []byte("{}")}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	o, err := month.Finalise(nil, org, plansOf(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	s.stale = proto.CloneOf(o)
	return o
}
