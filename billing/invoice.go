package billing

import (
	"fmt"
	"slices"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// ItemBroughtForward is the item of the line with the amount that the invoice before has carried forward.
const ItemBroughtForward = "brought_forward"

// LeastTotal is the least amount that is collected. An invoice carries a total below it forward.
const LeastTotal = 50 * Cent

// CloseGrace is the time after a month for which its close waits for sources of usage.
const CloseGrace = 48 * time.Hour

// InvoiceLine is a line of an invoice. The quantity and the amount of a line of late usage are differences, which may be
// negative, and its amount is the difference of two rounded amounts.
type InvoiceLine struct {
	Line
	MonthNs int64 // start of the month of its usage: another one than the invoice's = late
}

// LateMonth is a month that has an invoice, and usage that arrived after that.
type LateMonth struct {
	Month   time.Time   // any moment of it
	Usage   []HourUsage // all of the month
	Charged []Line      // the lines about the month on all invoices
}

// RateInvoice computes the lines of the invoice of a month: those of its bill, and then for each late month the difference
// between its bill and what was charged. So the lines of a month on all invoices sum to its bill. It also returns
// the cost of the month's model calls. Its errors are those of Rate.
func RateInvoice(r Rating, late []LateMonth) (lines []InvoiceLine, cost LLMCost, err error) {
	bill, err := Rate(r)
	if err != nil {
		return nil, cost, err
	}
	for _, l := range bill.Lines {
		lines = append(lines, InvoiceLine{l, bill.Start.UnixNano()})
	}
	for _, m := range late {
		whole, err := Rate(Rating{Month: m.Month, Usage: m.Usage, History: r.History, Book: r.Book})
		if err != nil {
			return nil, cost, err
		}
		differ, err := difference(whole.Lines, m.Charged)
		if err != nil {
			return nil, cost, err
		}
		for _, l := range differ {
			lines = append(lines, InvoiceLine{l, whole.Start.UnixNano()})
		}
	}
	return lines, bill.LLMCost, nil
}

// charge identifies what lines of several invoices are about.
type charge struct {
	item, namespace, version string
	tier                     int
}

func (l Line) charge() charge { return charge{l.Item, l.Namespace, l.PriceVersion, l.Tier} }

// difference returns the lines that must be added to the charged ones so that they sum to the whole bill. A fee, a minimum or
// a discount has the difference as its unit price, because its quantity and price are not sums.
func difference(whole, charged []Line) (lines []Line, err error) {
	var order []charge
	rest := map[charge]Line{}
	add := func(l Line, quantity money.Count, amount money.Nano) error {
		was, ok := rest[l.charge()]
		if !ok {
			order = append(order, l.charge())
			was = l
			was.Quantity, was.Amount = money.Count{}, 0
		}
		sum, err := was.Amount.Add(amount)
		if err != nil {
			return tooLarge("the difference of " + l.Item)
		}
		was.Quantity, was.Amount = was.Quantity.Add(quantity), sum
		rest[l.charge()] = was
		return nil
	}
	for _, l := range whole {
		if err := add(l, l.Quantity, l.Amount); err != nil {
			return nil, err
		}
	}
	for _, l := range charged {
		if err := add(l, money.Count{}.Minus(l.Quantity), -l.Amount); err != nil {
			return nil, err
		}
	}
	for _, key := range order {
		l := rest[key]
		usage := l.Namespace != ""
		if l.Amount == 0 && (!usage || l.Quantity == money.Count{}) {
			continue
		}
		if !usage {
			l.Quantity, l.Per, l.UnitPrice = money.CountOf(1), 1, l.Amount
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// BroughtForward returns the line with the amount that the invoice before has carried forward, or none for 0.
func BroughtForward(amount money.Nano, monthNs int64) []InvoiceLine {
	if amount == 0 {
		return nil
	}
	return []InvoiceLine{{Line{Item: ItemBroughtForward, Quantity: money.CountOf(1), Per: 1, UnitPrice: amount, Amount: amount}, monthNs}}
}

// Check returns what is wrong with a line that the leader has rated for the invoice of a month, or nil. The amount of a
// line that is not late follows from its quantity and price.
func (l InvoiceLine) Check(monthNs int64) error {
	_, known := l.account()
	start, _ := MonthBefore(l.MonthNs + 1)
	switch {
	case !known || l.Item == ItemBroughtForward:
		return fmt.Errorf("%q is no item", l.Item)
	case l.Per <= 0 || l.Tier < 0 || l.Tier > MaxTiers || l.Amount == money.Min:
		return fmt.Errorf("%s is for %d units in tier %d with an amount of %s", l.Item, l.Per, l.Tier, l.Amount)
	case l.MonthNs < 0 || l.MonthNs != start || l.MonthNs > monthNs:
		return fmt.Errorf("%s is of no month up to the invoice's", l.Item)
	case l.MonthNs < monthNs:
		return nil
	}
	if amount, err := l.price(); err != nil || amount != l.Amount {
		return fmt.Errorf("%s costs %s: %s x %s / %d is another amount", l.Item, l.Amount, l.Quantity, l.UnitPrice, l.Per)
	}
	return nil
}

// InvoiceSums are the end of an invoice. Subtotal = lines + Rounding = Credits + Carried + Total.
type InvoiceSums struct {
	Rounding money.Nano // makes Subtotal whole cents
	Subtotal money.Nano
	Credits  money.Nano // used, in whole cents
	Carried  money.Nano // forward to the next invoice, because it is below LeastTotal; may be negative
	Total    money.Nano // to pay; 0 or at least LeastTotal
}

// SumInvoice computes the end of an invoice from its lines and the credits that it may use. The op that finalises an invoice
// calls it, so that the arithmetic is permanent (ADR 0091). The error wraps ErrOverflow.
func SumInvoice(lines []InvoiceLine, credits money.Count) (s InvoiceSums, err error) {
	var sum money.Nano
	for _, l := range lines {
		if sum, err = sum.Add(l.Amount); err != nil {
			return s, tooLarge("the sum of the lines")
		}
	}
	if s.Subtotal, err = wholeCents(sum); err != nil {
		return s, err
	}
	s.Rounding = s.Subtotal - sum
	if s.Subtotal > 0 {
		s.Credits = s.Subtotal
		if money.CountOf(int64(s.Subtotal)).Compare(credits) > 0 {
			n := money.Nano(credits.Int64())
			s.Credits = n - n%Cent
		}
	}
	if s.Total = s.Subtotal - s.Credits; s.Total < LeastTotal {
		s.Carried, s.Total = s.Total, 0
	}
	return s, nil
}

// wholeCents rounds an amount half to even to whole cents.
func wholeCents(n money.Nano) (money.Nano, error) {
	if n == money.Min {
		return 0, tooLarge("the sum of the lines")
	}
	cents, err := money.CountOf(int64(max(n, -n))).Price(1, int64(Cent))
	if err != nil {
		return 0, tooLarge("the sum of the lines")
	}
	if n < 0 {
		return -cents * Cent, nil
	}
	return cents * Cent, nil // fits, because money.Max is rounded down
}

// Status returns the state in which an invoice with this end is finalised.
func (s InvoiceSums) Status() InvoiceStatus {
	if s.Total == 0 {
		return InvoicePaid
	}
	return InvoiceFinalised
}

// Postings returns the postings of a final invoice, by rising account. There are none if no line has an amount.
func Postings(lines []InvoiceLine, s InvoiceSums) (all []Posting, err error) {
	sums := map[Account]money.Nano{}
	add := func(a Account, amount money.Nano) error {
		sum, err := sums[a].Add(amount)
		if err != nil {
			return tooLarge("account " + fmt.Sprint(a))
		}
		sums[a] = sum
		return nil
	}
	for _, l := range lines {
		account, known := l.account()
		if !known {
			return nil, fmt.Errorf("%w: there is no item %q", ErrUnratable, l.Item)
		}
		if err := add(account, -l.Amount); err != nil {
			return nil, err
		}
	}
	for _, p := range []Posting{{Receivable, s.Total}, {UnbilledUsage, s.Carried}, {CreditsOutstanding, s.Credits}, {RoundingDifference, -s.Rounding}} {
		if err := add(p.Account, p.Amount); err != nil {
			return nil, err
		}
	}
	for account, sum := range sums {
		if sum != 0 {
			all = append(all, Posting{account, sum})
		}
	}
	slices.SortFunc(all, func(a, b Posting) int { return int(a.Account) - int(b.Account) })
	return all, nil
}
