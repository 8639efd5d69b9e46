package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
)

// ledgerHead is the end of the ledger's journal. The zero value is the head of an empty ledger.
type ledgerHead struct {
	number            int64
	hash              billing.ChainHash
	closedNs, firstNs int64
}

func readLedgerHead(q querier) (ledgerHead, error) {
	h, _, err := first(q, func(rows *sql.Rows) (h ledgerHead, err error) {
		err = rows.Scan(&h.number, (*chainHash)(&h.hash), &h.closedNs, &h.firstNs)
		return h, err
	}, "SELECT number, hash, closed_ns, first_ns FROM ledger_head")
	return h, err
}

// chainHash scans a hash of the ledger's chain.
type chainHash billing.ChainHash

// Scan copies a blob. It refuses one of another size.
func (h *chainHash) Scan(value any) error {
	b, ok := value.([]byte)
	if !ok || copy(h[:], b) != len(h) || len(b) != len(h) {
		return fmt.Errorf("a hash of the ledger has %d bytes", len(b))
	}
	return nil
}

// post adds a transaction to the ledger and to the balances. The caller sets everything but the number and the hash; a
// zero AtNs means the time of the entry. If a transaction with the same source key and content exists, post changes
// nothing. It refuses other content with CONFLICT, and with STATE_CONFLICT a time in a closed month and a balance that
// would exceed an int64. Any other fault is an error that stops the replica, because ops validate their amounts.
func (tx *Tx) post(t billing.Transaction) error {
	if t.AtNs == 0 {
		t.AtNs = tx.clockNs()
	}
	before, err := list(tx, scanTransaction, selectTransaction+" WHERE source = ?", t.Source)
	if err == nil {
		err = addPostings(tx, before)
	}
	if err != nil {
		return err
	}
	if len(before) > 0 {
		if t.SameContent(before[0]) {
			return nil
		}
		return api.Errorf(api.Conflict, "the ledger has another transaction %s, of number %d", t.Source, before[0].Number)
	}
	h, err := readLedgerHead(tx)
	if err != nil {
		return err
	}
	if t.AtNs < h.closedNs {
		return api.Errorf(api.StateConflict, "the transaction %s lies in a month that is closed: post it in the present month", t.Source)
	}
	t.Number = h.number + 1
	t.Hash = t.Chain(h.hash)
	if err := t.Validate(); err != nil {
		return fmt.Errorf("transaction %s of the ledger: %w", t.Source, err)
	}
	return tx.putTransaction(t, h)
}

// putTransaction writes a valid transaction, then the balances, then the head.
func (tx *Tx) putTransaction(t billing.Transaction, h ledgerHead) error {
	err := tx.put("INSERT INTO ledger_transactions ("+transactionColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		t.Number, t.AtNs, t.ClosesNs, t.Source, t.Org, t.Currency, t.Principal, t.Approver, t.Memo, t.Hash[:])
	if err != nil {
		return err
	}
	for _, p := range t.Postings {
		if err := tx.put("INSERT INTO ledger_postings (number, account, amount) VALUES (?, ?, ?)", t.Number, int64(p.Account), int64(p.Amount)); err != nil {
			return err
		}
		if err := tx.addToBalance(t, p); err != nil {
			return err
		}
	}
	if h.number == 0 {
		h.firstNs = t.AtNs
	}
	return tx.put(`INSERT INTO ledger_head (one, number, hash, closed_ns, first_ns) VALUES (1, ?1, ?2, ?3, ?4)
		ON CONFLICT (one) DO UPDATE SET number = ?1, hash = ?2, closed_ns = ?3`, t.Number, t.Hash[:], max(h.closedNs, t.ClosesNs), h.firstNs)
}

// addToBalance adds a posting to its balance. The sum is computed in Go, because SQL would continue with a float on
// overflow.
func (tx *Tx) addToBalance(t billing.Transaction, p billing.Posting) error {
	was, err := number(tx, "SELECT balance FROM ledger_balances WHERE org = ? AND currency = ? AND account = ?", t.Org, t.Currency, int64(p.Account))
	if err != nil {
		return err
	}
	sum, err := money.Nano(was).Add(p.Amount)
	if err != nil {
		return api.Errorf(api.StateConflict, "the balance of account %d of %s would exceed %s: it is %s", p.Account, t.Org, money.Max, money.Nano(was))
	}
	return tx.put(`INSERT INTO ledger_balances (org, currency, account, balance) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (org, currency, account) DO UPDATE SET balance = ?4`, t.Org, t.Currency, int64(p.Account), int64(sum))
}

const transactionColumns = "number, at_ns, closes_ns, source, org, currency, principal, approver, memo, hash"

const selectTransaction = "SELECT " + transactionColumns + " FROM ledger_transactions"

func scanTransaction(rows *sql.Rows) (t billing.Transaction, err error) {
	err = rows.Scan(&t.Number, &t.AtNs, &t.ClosesNs, &t.Source, &t.Org, &t.Currency, &t.Principal, &t.Approver, &t.Memo, (*chainHash)(&t.Hash))
	if err != nil {
		err = fmt.Errorf("transaction %d: %w", t.Number, err)
	}
	return t, err
}

// numbered is a posting with the number of its transaction.
type numbered struct {
	number int64
	billing.Posting
}

func scanPosting(rows *sql.Rows) (p numbered, err error) {
	if err = rows.Scan(&p.number, &p.Account, &p.Amount); err != nil {
		err = fmt.Errorf("a posting of transaction %d: %w", p.number, err)
	}
	return p, err
}

// addPostings reads the postings of transactions, which are in the order of their numbers.
func addPostings(q querier, of []billing.Transaction) error {
	if len(of) == 0 {
		return nil
	}
	postings, err := list(q, scanPosting, "SELECT number, account, amount FROM ledger_postings WHERE number >= ? AND number <= ? ORDER BY number, account",
		of[0].Number, of[len(of)-1].Number)
	for i, next := 0, 0; i < len(of); i++ {
		for ; next < len(postings) && postings[next].number <= of[i].Number; next++ {
			if postings[next].number == of[i].Number {
				of[i].Postings = append(of[i].Postings, postings[next].Posting)
			}
		}
	}
	return err
}

// LedgerBalance is the balance of an account.
type LedgerBalance struct {
	Account billing.AccountDefinition
	Balance money.Total // positive = debit, negative = credit
}

// Ledger describes the state of the ledger.
type Ledger struct {
	Transactions int64
	Hash         billing.ChainHash
	ClosedNs     int64           // end of the closed months; 0 = none is closed
	Balances     []LedgerBalance // of all accounts, over all organisations
}

// Ledger returns the end of the ledger's journal and the balances of the accounts.
func (s *Store) Ledger(ctx context.Context) (Ledger, error) {
	return read(ctx, s, func(r reader) (l Ledger, err error) {
		h, err := readLedgerHead(r)
		if err != nil {
			return l, err
		}
		// SQLite refuses a sum of more than 63 bits, so that it sums the halves of the balances.
		all, err := list(r, scanBalance, "SELECT '', currency, account, SUM(balance >> 31), SUM(balance & 2147483647) FROM ledger_balances GROUP BY 2, 3")
		if err != nil {
			return l, err
		}
		sums := map[billing.Account]money.Total{}
		for _, b := range all {
			sums[b.key.Account] = b.balance
		}
		l = Ledger{Transactions: h.number, Hash: h.hash, ClosedNs: h.closedNs}
		for _, d := range billing.Accounts {
			l.Balances = append(l.Balances, LedgerBalance{d, sums[d.Account]})
		}
		return l, nil
	})
}

// ledgerSum is a balance, or a sum of balances.
type ledgerSum struct {
	key     billing.BalanceKey
	balance money.Total
}

func scanBalance(rows *sql.Rows) (b ledgerSum, err error) {
	var high, low int64
	err = rows.Scan(&b.key.Org, &b.key.Currency, &b.key.Account, &high, &low)
	b.balance = money.Total(money.CountOfHalves(high, low))
	return b, err
}
