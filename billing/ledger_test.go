package billing

import (
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/billing/money"
)

// ledgerTime is the time of the first transaction of these tests.
const ledgerTime = "2026-01-15T12:00:00Z"

func nsOf(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixNano()
}

// grant returns a transaction that is valid by itself.
func grant(t *testing.T, amount money.Nano) Transaction {
	t.Helper()
	return Transaction{
		Number: 1, AtNs: nsOf(t, ledgerTime), Source: "credit/cr_1", Org: "org_acme", Currency: USD, Principal: "op_1", Approver: "op_2", Memo: "for the outage",
		Postings: []Posting{{CreditsOutstanding, -amount}, {CreditsGranted, amount}},
	}
}

// closing returns a transaction that closes a month, such as 2026-01, at a time.
func closing(t *testing.T, month, at string) Transaction {
	t.Helper()
	_, end := MonthBefore(nsOf(t, month+"-02T00:00:00Z"))
	return Transaction{AtNs: nsOf(t, at), ClosesNs: end, Source: "month/" + month, Currency: USD, Principal: "op_1"}
}

// next gives a transaction its number and hash after the books.
func (b *Books) next(t Transaction) Transaction {
	t.Number = b.Number + 1
	t.Hash = t.Chain(b.Hash)
	return t
}

// TestAccountsAreAsDocumented compares the accounts with the table for auditors. A number that has been given is in
// journals, so that a line of that table never changes its number.
func TestAccountsAreAsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/ledger.md")
	if err != nil {
		t.Fatal(err)
	}
	var table []string
	names := map[string]bool{}
	for i, d := range Accounts {
		if names[d.Name] || d.About == "" || d.Normal != Debit && d.Normal != Credit || i > 0 && d.Account <= Accounts[i-1].Account {
			t.Errorf("account %d is defined as %+v", d.Account, d)
		}
		if got, ok := d.Account.Definition(); !ok || got != d {
			t.Errorf("account %d is found as %+v", d.Account, got)
		}
		names[d.Name] = true
		table = append(table, fmt.Sprintf("| %d | `%s` | %s | %s |", d.Account, d.Name, d.Normal, d.About))
	}
	for name, want := range map[string]string{"accounts": "|---|---|---|---|\n" + strings.Join(table, "\n") + "\n\n",
		"journal": "`" + strings.Join(JournalColumns, "`, `") + "`", "trial balance": "`" + strings.Join(TrialBalanceColumns, "`, `") + "`"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/ledger.md does not have the %s\n%s", name, want)
		}
	}
	if _, ok := Account(1).Definition(); ok {
		t.Error("account 1 is known")
	}
}

// The bytes of the hash are permanent.
func TestLedgerHashIsPermanent(t *testing.T) {
	t.Parallel()
	first := grant(t, 5*money.Dollar).Chain(ChainHash{})
	second := closing(t, "2026-01", "2026-02-01T00:00:00Z").Chain(first)
	for got, want := range map[ChainHash]string{
		first:  "7ff2fe96b0522aa0d4311e39ac361964a328fffcb56de6e84aff1f740123e651",
		second: "6e85e0833ad190585105107883f227e1eb6843afe2d7e997f5ac630a17f3b3e2",
	} {
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("the hash is %x, want %s", got, want)
		}
	}
}

// A transaction is refused for each fault that it can have by itself.
func TestLedgerTransactionsAreValidated(t *testing.T) {
	t.Parallel()
	if err := grant(t, math.MaxInt64).Validate(); err != nil {
		t.Errorf("the largest amount: %v", err)
	}
	for want, damage := range map[string]func(*Transaction){
		"source key has 0 bytes":                   func(x *Transaction) { x.Source = "" },
		"source key has 161 bytes":                 func(x *Transaction) { x.Source = strings.Repeat("x", MaxSource+1) },
		"memo has 513 bytes":                       func(x *Transaction) { x.Memo = strings.Repeat("x", MaxMemo+1) },
		`currency is "EUR": only USD`:              func(x *Transaction) { x.Currency = "EUR" },
		`currency is ""`:                           func(x *Transaction) { x.Currency = "" },
		"has no time":                              func(x *Transaction) { x.AtNs = 0 },
		"has no organisation":                      func(x *Transaction) { x.Org = "" },
		"has no postings":                          func(x *Transaction) { x.Postings = nil },
		"there is no account 9":                    func(x *Transaction) { x.Postings[0].Account = 9 },
		"account 2100 comes after account 5100":    func(x *Transaction) { slices.Reverse(x.Postings) },
		"account 5100 comes after account 5100":    func(x *Transaction) { x.Postings[0].Account = CreditsGranted },
		"account 5100 changes by nothing":          func(x *Transaction) { x.Postings[1].Amount = 0 },
		"sum to -0.000000001 and not to zero":      func(x *Transaction) { x.Postings[0].Amount-- },
		"sum to 18446744073.709551616 and not":     wraps,
		"closes a month and has postings":          func(x *Transaction) { x.ClosesNs = nsOf(t, "2026-01-01T00:00:00Z") },
		"which is not the end of a month":          func(x *Transaction) { x.Org, x.Postings, x.ClosesNs = "", nil, nsOf(t, "2026-01-02T00:00:00Z") },
		"closes 2026-01 before the end of that mo": func(x *Transaction) { x.Org, x.Postings, x.ClosesNs = "", nil, nsOf(t, "2026-02-01T00:00:00Z") },
	} {
		x := grant(t, money.Dollar)
		damage(&x)
		if err := x.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// wraps gives a transaction postings that sum to zero in 64 bits, and not in 128.
func wraps(x *Transaction) {
	x.Postings = []Posting{{Receivable, math.MaxInt64}, {TaxPayable, math.MaxInt64}, {RevenueFees, 2}}
}

// The books follow valid transactions, and name the first one that does not fit.
func TestBooksFollowTransactions(t *testing.T) {
	t.Parallel()
	february := func(source string) Transaction {
		x := grant(t, 2*money.Dollar)
		x.Source, x.AtNs = source, nsOf(t, "2026-02-01T00:00:00Z")
		return x
	}
	build := func() Books {
		var b Books
		for _, x := range []Transaction{grant(t, 5*money.Dollar), closing(t, "2026-01", "2026-02-01T00:00:00Z"), february("credit/cr_2")} {
			if err := b.Follow(b.next(x)); err != nil {
				t.Fatal(err)
			}
		}
		return b
	}
	b := build()
	if sum := b.Sums[BalanceKey{"org_acme", USD, CreditsOutstanding}]; sum.Balance().String() != "-7" || b.Number != 3 || b.ClosedNs != nsOf(t, "2026-02-01T00:00:00Z") {
		t.Errorf("the books are %+v", b)
	}
	for want, broken := range map[string]func(*Books) Transaction{
		"transaction 4 is missing":           func(b *Books) Transaction { b.Number++; x := b.next(february("x")); b.Number--; return x },
		"(x) does not fit its hash":          func(b *Books) Transaction { x := b.next(february("x")); x.Memo += "!"; return x },
		"(x): its postings sum to":           func(b *Books) Transaction { x := february("x"); wraps(&x); return b.next(x) },
		"lies in a closed month":             func(b *Books) Transaction { x := february("x"); x.AtNs--; return b.next(x) },
		"2026-01 is closed already":          func(b *Books) Transaction { return b.next(closing(t, "2026-01", "2026-02-02T00:00:00Z")) },
		"close 2026-02 first, then 2026-03":  func(b *Books) Transaction { return b.next(closing(t, "2026-03", "2026-04-02T00:00:00Z")) },
		"closes 2026-02 before the end of t": func(b *Books) Transaction { return b.next(closing(t, "2026-02", "2026-02-28T23:59:59Z")) },
	} {
		b := build()
		if err := b.Follow(broken(&b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if b.Number != 3 || b.Sums[BalanceKey{"org_acme", USD, CreditsOutstanding}].Balance().String() != "-7" {
			t.Errorf("%s has changed the books: %+v", want, b)
		}
	}
}

// A month is closed only when it is over, and in order.
func TestMonthsAreClosedInOrder(t *testing.T) {
	t.Parallel()
	at := func(text string) int64 { return nsOf(t, text+"T00:00:00Z") }
	for _, c := range []struct {
		end, closed, first, now int64
		want                    string
	}{
		{end: at("2026-02-01"), now: at("2026-02-01")},
		{end: at("2026-02-01"), now: at("2026-02-01") - 1, want: "2026-01 is not over: close it after 2026-02-01T00:00:00Z"},
		{end: at("2026-02-01"), first: at("2026-01-01"), now: at("2026-03-01")},
		{end: at("2026-02-01"), first: at("2026-01-01") - 1, now: at("2026-03-01"), want: "close 2025-12 first, which has the first transaction, then 2026-01"},
		{end: at("2026-02-01"), first: at("2026-05-01"), now: at("2026-06-01")},
		{end: at("2026-03-01"), closed: at("2026-02-01"), now: at("2026-03-01")},
		{end: at("2026-02-01"), closed: at("2026-02-01"), now: at("2026-03-01"), want: "2026-01 is closed already"},
		{end: at("2026-04-01"), closed: at("2026-02-01"), now: at("2026-05-01"), want: "close 2026-02 first, then 2026-03"},
	} {
		got := ""
		if err := CheckClosing(c.end, c.closed, c.first, c.now); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// The exports are the same bytes each time, with amounts as decimals of any size.
func TestLedgerExports(t *testing.T) {
	t.Parallel()
	var b Books
	var journal, balance strings.Builder
	out, err := NewJournalWriter(&journal)
	if err != nil {
		t.Fatal(err)
	}
	large := grant(t, math.MaxInt64)
	large.Source, large.Org, large.Memo = "credit/cr_2", "org_b", "a \"quoted\", long\nreason"
	for _, x := range []Transaction{grant(t, math.MaxInt64), large, closing(t, "2026-01", "2026-02-01T00:00:00Z")} {
		x = b.next(x)
		if err := b.Follow(x); err != nil {
			t.Fatal(err)
		}
		x.Hash = ChainHash{}
		if err := out.Write(x); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.WriteTrialBalance(&balance); err != nil {
		t.Fatal(err)
	}
	zeros := strings.Repeat("0", 64)
	wantJournal := strings.Join(JournalColumns, ",") + strings.ReplaceAll(`
1,2026-01-15T12:00:00Z,credit/cr_1,org_acme,USD,2100,credits_outstanding,,9223372036.854775807,,op_1,op_2,for the outage,HASH
1,2026-01-15T12:00:00Z,credit/cr_1,org_acme,USD,5100,credits_granted,9223372036.854775807,,,op_1,op_2,for the outage,HASH
2,2026-01-15T12:00:00Z,credit/cr_2,org_b,USD,2100,credits_outstanding,,9223372036.854775807,,op_1,op_2,"a ""quoted"", long
reason",HASH
2,2026-01-15T12:00:00Z,credit/cr_2,org_b,USD,5100,credits_granted,9223372036.854775807,,,op_1,op_2,"a ""quoted"", long
reason",HASH
3,2026-02-01T00:00:00Z,month/2026-01,,USD,,,,,2026-01,op_1,,,HASH
`, "HASH", zeros)
	if journal.String() != wantJournal {
		t.Errorf("the journal is\n%s\nwant\n%s", journal.String(), wantJournal)
	}
	for _, line := range []string{
		"\n2100,credits_outstanding,USD,0,18446744073.709551614,18446744073.709551614,credit\n",
		"\n5100,credits_granted,USD,18446744073.709551614,0,18446744073.709551614,debit\n",
		"\n1100,receivable,USD,0,0,0,\n",
		"\n,total,USD,18446744073.709551614,18446744073.709551614,0,\n",
	} {
		if !strings.Contains(balance.String(), line) {
			t.Errorf("the trial balance lacks %q:\n%s", line, balance.String())
		}
	}
}
