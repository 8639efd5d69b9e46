package store

import (
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// verifyLedger recomputes the ledger from its first transaction on, and returns its sums. each, unless it is nil, gets
// the verified transactions in order. If the ledger has a fault, the error is UNHEALTHY and describes the first one.
func verifyLedger(q querier, each func(billing.Transaction) error) (billing.Books, error) {
	var books billing.Books
	if err := followLedger(q, &books, each); err != nil {
		return books, err
	}
	for _, check := range []func(querier, billing.Books) (fault string, err error){compareHead, checkPostings, compareBalances, compareCredits} {
		fault, err := check(q, books)
		if err != nil {
			return books, err
		}
		if fault != "" {
			return books, changedLedger(fault)
		}
	}
	return books, nil
}

func changedLedger(fault string) error {
	return unhealthy("the ledger was changed: %s; compare it with an export or a backup", fault)
}

// followLedger adds all transactions to the books.
func followLedger(q querier, books *billing.Books, each func(billing.Transaction) error) error {
	for {
		// The order is that of the numbers, so that a row with a wrong number shows as a gap.
		page, err := list(q, scanTransaction, selectTransaction+" WHERE number > ? ORDER BY number LIMIT ?", books.Number, MaxPage)
		if err == nil {
			err = addPostings(q, page)
		}
		if err != nil {
			return err
		}
		for _, t := range page {
			if err := books.Follow(t); err != nil {
				return changedLedger(err.Error())
			}
			if each == nil {
				continue
			}
			if err := each(t); err != nil {
				return err
			}
		}
		if len(page) < MaxPage {
			return nil
		}
	}
}

// compareHead compares the end of the journal with the head.
func compareHead(q querier, books billing.Books) (string, error) {
	h, err := readLedgerHead(q)
	switch {
	case err != nil:
		return "", err
	case h.number != books.Number || h.hash != books.Hash:
		return fmt.Sprintf("it ends at transaction %d with the hash %x, it was written up to transaction %d with the hash %x", books.Number, books.Hash, h.number, h.hash), nil
	case h.closedNs != books.ClosedNs || h.firstNs != books.FirstNs:
		return "its closed months or its beginning do not fit its transactions", nil
	}
	return "", nil
}

// checkPostings finds postings without a transaction, and by SQL alone transactions that do not sum to zero. The second
// check does not depend on the code that follows the chain.
func checkPostings(q querier, _ billing.Books) (string, error) {
	stray, found, err := first(q, scalar[int64], "SELECT number FROM ledger_postings WHERE number NOT IN (SELECT number FROM ledger_transactions) ORDER BY number LIMIT 1")
	if err != nil || found {
		return fmt.Sprintf("transaction %d has postings and does not exist", stray), err
	}
	// A sum is high x 2^31 + low, and low is not negative.
	uneven, found, err := first(q, scalar[int64], `SELECT number FROM (SELECT number, SUM(amount >> 31) AS high, SUM(amount & 2147483647) AS low FROM ledger_postings GROUP BY number)
		WHERE low % 2147483648 <> 0 OR high + low / 2147483648 <> 0 ORDER BY number LIMIT 1`)
	if err != nil || found {
		return fmt.Sprintf("transaction %d does not sum to zero", uneven), err
	}
	return "", nil
}

// compareBalances compares the stored balances with those of the books.
func compareBalances(q querier, books billing.Books) (string, error) {
	stored, err := list(q, scanBalance, "SELECT org, currency, account, balance >> 31, balance & 2147483647 FROM ledger_balances ORDER BY org, currency, account")
	if err != nil {
		return "", err
	}
	missing := maps.Clone(books.Sums)
	for _, b := range stored {
		if want := books.Sums[b.key].Balance(); b.balance != want {
			return fmt.Sprintf("the balance of account %d of %q in %s is %s, its postings sum to %s", b.key.Account, b.key.Org, b.key.Currency, b.balance, want), nil
		}
		delete(missing, b.key)
	}
	for _, key := range slices.SortedFunc(maps.Keys(missing), func(a, b billing.BalanceKey) int {
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Account, b.Account))
	}) {
		return fmt.Sprintf("the balance of account %d of %q is missing", key.Account, key.Org), nil
	}
	return "", nil
}

// creditRest is the sum of the unused rests of an organisation's credits.
type creditRest struct {
	org  string
	rest money.Count
}

// compareCredits compares the unused rests of credits with the account that holds them.
func compareCredits(q querier, books billing.Books) (string, error) {
	rests, err := list(q, func(rows *sql.Rows) (c creditRest, err error) {
		var high, low int64
		err = rows.Scan(&c.org, &high, &low)
		c.rest = money.CountOfHalves(high, low)
		return c, err
	}, "SELECT org, SUM(rest >> 31), SUM(rest & 2147483647) FROM credits GROUP BY org ORDER BY org")
	if err != nil {
		return "", err
	}
	for _, c := range rests {
		balance := books.Sums[billing.BalanceKey{Org: c.org, Currency: billing.USD, Account: billing.CreditsOutstanding}].Balance()
		if money.Count(balance).Add(c.rest) != (money.Count{}) {
			return fmt.Sprintf("the credits of %q have unused rests of %s, account %d has %s", c.org, money.Total(c.rest), billing.CreditsOutstanding, balance), nil
		}
	}
	return "", nil
}
