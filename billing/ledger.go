package billing

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// USD is the only currency of the ledger.
const USD = "USD"

// The bounds of a transaction's texts, in bytes.
const (
	MaxSource = 160 // of the source key
	MaxMemo   = 512
)

// Posting changes an account: a positive amount is a debit, a negative amount a credit.
type Posting struct {
	Account Account
	Amount  money.Nano
}

// ChainHash is the hash of a transaction and of all transactions before it.
type ChainHash [sha256.Size]byte

// Transaction is one entry of the ledger's journal. A transaction with postings changes balances; one with ClosesNs
// closes a month instead.
type Transaction struct {
	Number    int64 // from 1, without gaps
	AtNs      int64
	ClosesNs  int64  // end of the month that it closes; 0 = it closes none
	Source    string // unique key of its cause, such as "credit/<id>"
	Org       string // "" = the closing of a month
	Currency  string
	Principal string // key or component that caused it
	Approver  string // the second person; "" = none was needed
	Memo      string
	Postings  []Posting // by rising account
	Hash      ChainHash
}

// Chain returns the transaction's hash after the hash of the transaction before. The format is permanent (ADR 0090).
func (t Transaction) Chain(before ChainHash) ChainHash {
	b := slices.Clone(before[:])
	for _, n := range []int64{t.Number, t.AtNs, t.ClosesNs} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, text := range []string{t.Source, t.Org, t.Currency, t.Principal, t.Approver, t.Memo} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(len(t.Postings)))
	for _, p := range t.Postings {
		b = binary.BigEndian.AppendUint64(b, uint64(p.Account))
		b = binary.BigEndian.AppendUint64(b, uint64(p.Amount))
	}
	return sha256.Sum256(b)
}

// Validate returns an error that describes the first fault of the transaction by itself, or nil. Its number, its hash
// and the closed months depend on the transactions before: see Books.
func (t Transaction) Validate() error {
	switch {
	case t.Source == "" || len(t.Source) > MaxSource:
		return fmt.Errorf("its source key has %d bytes: it takes 1 to %d", len(t.Source), MaxSource)
	case len(t.Memo) > MaxMemo:
		return fmt.Errorf("its memo has %d bytes: at most %d are allowed", len(t.Memo), MaxMemo)
	case t.Currency != USD:
		return fmt.Errorf("its currency is %q: only %s is known", t.Currency, USD)
	case t.AtNs <= 0:
		return errors.New("it has no time")
	case t.ClosesNs != 0:
		return t.validateClosing()
	case t.Org == "":
		return errors.New("it has no organisation")
	case len(t.Postings) == 0:
		return errors.New("it has no postings")
	}
	var sum money.Count
	var last Account
	for _, p := range t.Postings {
		if _, known := p.Account.Definition(); !known {
			return fmt.Errorf("there is no account %d", p.Account)
		}
		if p.Account <= last {
			return fmt.Errorf("account %d comes after account %d", p.Account, last)
		}
		if p.Amount == 0 {
			return fmt.Errorf("account %d changes by nothing", p.Account)
		}
		sum, last = sum.Add(money.CountOf(int64(p.Amount))), p.Account
	}
	if sum != (money.Count{}) {
		return fmt.Errorf("its postings sum to %s and not to zero", money.Total(sum))
	}
	return nil
}

func (t Transaction) validateClosing() error {
	switch start, end := MonthBefore(t.ClosesNs); {
	case len(t.Postings) != 0 || t.Org != "":
		return errors.New("it closes a month and has postings or an organisation")
	case end != t.ClosesNs:
		return fmt.Errorf("it closes until %s, which is not the end of a month", instantText(t.ClosesNs))
	case t.AtNs < end:
		return fmt.Errorf("it closes %s before the end of that month", monthText(start))
	}
	return nil
}

// SameContent reports whether two transactions with one source key say the same. Their numbers, times and hashes may
// differ.
func (t Transaction) SameContent(u Transaction) bool {
	return t.Source == u.Source && t.Org == u.Org && t.Currency == u.Currency && t.Principal == u.Principal && t.Approver == u.Approver &&
		t.Memo == u.Memo && t.ClosesNs == u.ClosesNs && slices.Equal(t.Postings, u.Postings)
}

// MonthBefore returns the bounds of the calendar month in UTC whose last nanosecond lies before a time.
func MonthBefore(endNs int64) (startNs, monthEndNs int64) {
	start, end := Month.Window(time.Unix(0, endNs-1).UTC(), time.UTC)
	return start.UnixNano(), end.UnixNano()
}

// CheckClosing returns why the month that ends at endNs cannot be closed at a time, or nil. closedNs is the end of the
// months that are closed, or 0. firstNs is the time of the first transaction, or 0: before the first closing, no
// transaction may lie before the month, because its own month would stay open.
func CheckClosing(endNs, closedNs, firstNs, nowNs int64) error {
	startNs, _ := MonthBefore(endNs)
	month := monthText(startNs)
	switch {
	case endNs > nowNs:
		return fmt.Errorf("%s is not over: close it after %s", month, instantText(endNs))
	case closedNs != 0 && endNs <= closedNs:
		return fmt.Errorf("%s is closed already", month)
	case closedNs != 0 && startNs != closedNs:
		return fmt.Errorf("close %s first, then %s", monthText(closedNs), month)
	case closedNs == 0 && firstNs != 0 && firstNs < startNs:
		return fmt.Errorf("close %s first, which has the first transaction, then %s", monthText(firstNs), month)
	}
	return nil
}

// monthText formats the month of a time, such as 2026-02.
func monthText(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01") }

func instantText(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
