package billing

import (
	"encoding/csv"
	"encoding/hex"
	"io"
	"strconv"
	"strings"

	"github.com/corvo/corvo/billing/money"
)

// JournalColumns and TrialBalanceColumns are the headers of the ledger's exports. docs/ledger.md explains them.
var (
	JournalColumns      = []string{"number", "time", "source", "organisation", "currency", "account", "account_name", "debit", "credit", "closes", "principal", "approver", "memo", "hash"}
	TrialBalanceColumns = []string{"account", "account_name", "currency", "debits", "credits", "balance", "side"}
)

// JournalWriter writes transactions as CSV: a record for each posting, and one for each closed month.
type JournalWriter struct{ out *csv.Writer }

// NewJournalWriter returns a writer that has written the header.
func NewJournalWriter(w io.Writer) (*JournalWriter, error) {
	j := &JournalWriter{csv.NewWriter(w)}
	return j, j.out.Write(JournalColumns)
}

// Write writes one transaction.
func (j *JournalWriter) Write(t Transaction) error {
	write := func(account, name, debit, credit, closes string) error {
		return j.out.Write([]string{
			strconv.FormatInt(t.Number, 10), instantText(t.AtNs), t.Source, t.Org, t.Currency, account, name, debit, credit, closes,
			t.Principal, t.Approver, t.Memo, hex.EncodeToString(t.Hash[:]),
		})
	}
	if t.ClosesNs != 0 {
		start, _ := MonthBefore(t.ClosesNs)
		return write("", "", "", "", monthText(start))
	}
	for _, p := range t.Postings {
		d, _ := p.Account.Definition()
		debit, credit := p.Amount.String(), ""
		if p.Amount < 0 {
			debit, credit = "", strings.TrimPrefix(debit, "-")
		}
		if err := write(strconv.Itoa(int(p.Account)), d.Name, debit, credit, ""); err != nil {
			return err
		}
	}
	return nil
}

// Close writes buffered records. It does not close the writer below.
func (j *JournalWriter) Close() error {
	j.out.Flush()
	return j.out.Error()
}

// WriteTrialBalance writes the sums of each account as CSV, and then their total.
func (b *Books) WriteTrialBalance(w io.Writer) error {
	records := [][]string{TrialBalanceColumns}
	var total Turnover
	for i, sum := range b.TrialBalance() {
		d := Accounts[i]
		records = append(records, append([]string{strconv.Itoa(int(d.Account)), d.Name, USD}, sum.columns()...))
		total = Turnover{total.Debits.Add(sum.Debits), total.Credits.Add(sum.Credits)}
	}
	records = append(records, append([]string{"", "total", USD}, total.columns()...))
	return csv.NewWriter(w).WriteAll(records)
}

// columns returns debits, credits, balance and the side of the balance, all without signs.
func (t Turnover) columns() []string {
	balance, side := t.Balance(), Debit
	switch n := balance.Compare(money.Total{}); {
	case n < 0:
		side = Credit
	case n == 0:
		side = ""
	}
	return []string{t.Debits.String(), strings.TrimPrefix(t.Credits.String(), "-"), strings.TrimPrefix(balance.String(), "-"), string(side)}
}
