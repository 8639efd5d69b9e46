package billing

import (
	"fmt"

	"github.com/corvo/corvo/billing/money"
)

// BalanceKey names a balance.
type BalanceKey struct {
	Org      string
	Currency string
	Account  Account
}

// Turnover holds the sums of the postings of an account. Credits is not positive.
type Turnover struct{ Debits, Credits money.Total }

// Balance returns the balance: positive on the debit side, negative on the credit side.
func (t Turnover) Balance() money.Total { return t.Debits.Add(t.Credits) }

func (t Turnover) add(amount money.Nano) Turnover {
	if amount > 0 {
		t.Debits = t.Debits.Add(money.TotalOf(amount))
	} else {
		t.Credits = t.Credits.Add(money.TotalOf(amount))
	}
	return t
}

// Books are the sums of a ledger's transactions, recomputed from the first one on. The zero value is empty.
type Books struct {
	Number   int64 // of the last transaction
	Hash     ChainHash
	ClosedNs int64 // end of the closed months; 0 = none is closed
	FirstNs  int64 // time of the first transaction
	Sums     map[BalanceKey]Turnover
}

// Follow adds the next transaction. It returns an error that describes the fault, and adds nothing, if the transaction
// does not follow the one before, does not fit its hash, is invalid or lies in a closed month.
func (b *Books) Follow(t Transaction) error {
	switch {
	case t.Number != b.Number+1:
		return fmt.Errorf("transaction %d is missing", b.Number+1)
	case t.Chain(b.Hash) != t.Hash:
		return fmt.Errorf("transaction %d (%s) does not fit its hash", t.Number, t.Source)
	}
	err := t.Validate()
	if err == nil && t.AtNs < b.ClosedNs {
		err = fmt.Errorf("its time %s lies in a closed month", instantText(t.AtNs))
	}
	if err == nil && t.ClosesNs != 0 {
		err = CheckClosing(t.ClosesNs, b.ClosedNs, b.FirstNs, t.AtNs)
	}
	if err != nil {
		return fmt.Errorf("transaction %d (%s): %w", t.Number, t.Source, err)
	}
	if b.Sums == nil {
		b.Sums, b.FirstNs = map[BalanceKey]Turnover{}, t.AtNs
	}
	for _, p := range t.Postings {
		key := BalanceKey{t.Org, t.Currency, p.Account}
		b.Sums[key] = b.Sums[key].add(p.Amount)
	}
	b.Number, b.Hash = t.Number, t.Hash
	b.ClosedNs = max(b.ClosedNs, t.ClosesNs)
	return nil
}

// TrialBalance returns the sums of each account over all organisations, in the order of Accounts.
func (b *Books) TrialBalance() []Turnover {
	all := make([]Turnover, len(Accounts))
	for i, d := range Accounts {
		for key, sum := range b.Sums {
			if key.Account == d.Account {
				all[i] = Turnover{all[i].Debits.Add(sum.Debits), all[i].Credits.Add(sum.Credits)}
			}
		}
	}
	return all
}
