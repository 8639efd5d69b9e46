package billing

import (
	"errors"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// ErrUnratable means that usage or a history of plans cannot be rated, because it breaks a rule of Rate.
var ErrUnratable = errors.New("the usage cannot be rated")

// The items of lines that are not usage. The item of a line of usage is the name of its meter.
const (
	ItemFee      = "monthly_fee"
	ItemDiscount = "discount"
	ItemMinimum  = "minimum"
)

// Cent is a hundredth of a dollar. Totals are whole cents.
const Cent = money.Dollar / 100

// Line is one item of a bill. Its Amount is Quantity x UnitPrice / Per, rounded half to even to a nano-dollar.
type Line struct {
	Item         string
	Namespace    string // id; "" = the line is not usage
	PriceVersion string
	Tier         int // of usage; 0 = included
	Quantity     money.Count
	Per          int64
	UnitPrice    money.Nano
	Amount       money.Nano
}

// Bill is what an organisation owes for a month.
type Bill struct {
	Start, End time.Time // the month
	Lines      []Line
	Rounding   money.Nano // makes Subtotal whole cents
	Subtotal   money.Nano // sum of the lines and Rounding
	LLMCost    LLMCost
}

// LLMCost is the cost of model calls, which the organisation pays to the providers of the models.
type LLMCost struct {
	Total   money.Total
	ByModel []ModelCost // in the order of providers and models
}

// ModelCost is the cost of the calls of one model.
type ModelCost struct {
	Provider, Model string
	Cost            money.Total
}

// add appends a line. It computes the line's amount from the other fields.
func (b *Bill) add(l Line) (amount money.Nano, err error) {
	if l.Amount, err = l.price(); err != nil {
		return 0, err
	}
	b.Lines = append(b.Lines, l)
	return l.Amount, nil
}

// price computes the amount of a line from its other fields.
func (l Line) price() (money.Nano, error) {
	if l.UnitPrice == money.Min {
		return 0, tooLarge(l.Item)
	}
	amount, err := l.Quantity.Price(max(l.UnitPrice, -l.UnitPrice), l.Per)
	if err != nil {
		return 0, tooLarge(l.Item)
	}
	if l.UnitPrice < 0 {
		amount = -amount
	}
	return amount, nil
}

// finish adds the lines up and rounds their sum half to even to whole cents.
func (b *Bill) finish() error {
	var sum money.Nano
	for _, l := range b.Lines {
		var err error
		if sum, err = sum.Add(l.Amount); err != nil {
			return tooLarge("the sum of the lines")
		}
	}
	subtotal, err := wholeCents(sum)
	b.Subtotal, b.Rounding = subtotal, subtotal-sum
	return err
}
