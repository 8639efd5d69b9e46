package store

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/billing/money"
	"github.com/corvo/corvo/tenancy/keyring"
)

// closing returns the op that closes a month, such as 2023-11, which is the month of epochNs.
func closing(month string) *CloseMonth {
	start, err := time.Parse("2006-01", month)
	if err != nil {
		panic(err)
	}
	return &CloseMonth{Meta: by("op"), EndNs: start.AddDate(0, 1, 0).UnixNano()}
}

// books verifies the ledger and returns its sums.
func (w *world) books() billing.Books {
	w.t.Helper()
	return ask(w, func(r reader) (billing.Books, error) { return verifyLedger(r, nil) })
}

// wantBalances checks the verified balances of an organisation: what it may use, and what was granted.
func (w *world) wantBalances(org string, outstanding, granted string) {
	w.t.Helper()
	sums := w.books().Sums
	for account, want := range map[billing.Account]string{billing.CreditsOutstanding: outstanding, billing.CreditsGranted: granted} {
		if got := sums[billing.BalanceKey{Org: "org_" + org, Currency: billing.USD, Account: account}].Balance().String(); got != want {
			w.t.Errorf("account %d of %s has %s, want %s", account, org, got, want)
		}
	}
}

// passTo moves the clock to a time such as 2023-12-01.
func (w *world) passTo(day string) {
	w.t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		w.t.Fatal(err)
	}
	w.clockNs = at.UnixNano()
}

// posting applies one transaction as an op would.
func (w *world) posting(t billing.Transaction) (refused *api.Error) {
	w.t.Helper()
	err := w.transact(func(tx *Tx) (err error) {
		tx.head.clockNs = w.clockNs
		refused, err = tx.attempt(func() error { return tx.post(t) })
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return refused
}

// adjustment returns a transaction of an organisation without other records.
func adjustment(source string, amount money.Nano) billing.Transaction {
	return billing.Transaction{Source: source, Org: "org_b", Currency: billing.USD, Principal: "op", Memo: "why",
		Postings: []billing.Posting{{Account: billing.Receivable, Amount: amount}, {Account: billing.RevenueFees, Amount: -amount}}}
}

// A source key stands for one content: a repeat changes nothing, at another time too.
func TestLedgerTakesASourceOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if e := w.posting(adjustment("fee/1", 5)); e != nil {
		t.Fatal(e)
	}
	before := w.dump()
	w.pass(time.Hour)
	if e := w.posting(adjustment("fee/1", 5)); e != nil {
		t.Error(e)
	}
	other := adjustment("fee/1", 5)
	other.Memo = "another"
	for _, x := range []billing.Transaction{adjustment("fee/1", 6), other} {
		if err := refused(w.posting(x), api.Conflict); err != nil {
			t.Error(err)
		}
	}
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("the state has changed: %s", diff)
	}
}

// A balance that would exceed an int64 is refused, and nothing of the transaction stays.
func TestLedgerRefusesOverflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if e := w.posting(adjustment("fee/1", math.MaxInt64)); e != nil {
		t.Fatal(e)
	}
	before := w.dump()
	if err := refused(w.posting(adjustment("fee/2", 1)), api.StateConflict); err != nil {
		t.Error(err)
	}
	if diff := difference(before, w.dump()); diff != "" {
		t.Errorf("the state has changed: %s", diff)
	}
	other := adjustment("fee/3", math.MaxInt64)
	other.Org = "org_c"
	if e := w.posting(other); e != nil {
		t.Error(e)
	}
	l, err := w.store().Ledger(t.Context())
	if err != nil || l.Transactions != 2 || l.Balances[0].Balance.String() != "18446744073.709551614" {
		t.Errorf("the ledger is %+v: %v", l, err)
	}
	w.books()
}

// An invalid transaction stops the replica, because no op may make one.
func TestLedgerStopsAtAnInvalidTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	uneven := adjustment("fee/1", 5)
	uneven.Postings[0].Amount++
	err := w.transact(func(tx *Tx) error {
		tx.head.clockNs = w.clockNs
		_, err := tx.attempt(func() error { return tx.post(uneven) })
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "fee/1 of the ledger: its postings sum to 0.000000001") {
		t.Error(err)
	}
}

// Months are closed in order, and a closed one takes no transaction.
func TestCloseMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("a"), credited("a", "c1", money.Dollar))
	w.refused(api.StateConflict, closing("2023-11")) // not over
	w.passTo("2023-12-31")
	w.refused(api.StateConflict, closing("2023-12"))
	w.passTo("2024-02-01")
	w.refused(api.StateConflict, closing("2023-12")) // the first transaction is in November
	w.ok(closing("2023-11"))
	w.refused(api.StateConflict, closing("2023-11"))
	w.refused(api.StateConflict, closing("2024-01"))
	// The second of two closers in one entry is refused.
	results := w.apply(closing("2023-12"), closing("2023-12"))
	if e, is := results[1].(*api.Error); !is || refused(e, api.StateConflict) != nil {
		t.Errorf("the second closer got %v", results[1])
	}
	late := adjustment("fee/1", 5)
	late.AtNs = w.clockNs - int64(32*24*time.Hour)
	if err := refused(w.posting(late), api.StateConflict); err != nil {
		t.Error(err)
	}
	late.AtNs = w.clockNs - int64(31*24*time.Hour) // the first moment of January
	if e := w.posting(late); e != nil {
		t.Error(e)
	}
	if b := w.books(); b.ClosedNs != closing("2023-12").EndNs {
		t.Errorf("closed until %d", b.ClosedNs)
	}
	for _, end := range []int64{0, -1, closing("2024-01").EndNs + 1, math.MinInt64} {
		o := &CloseMonth{EndNs: end}
		if err := refused(o.Validate(), api.ValidationError); err != nil {
			t.Errorf("end %d: %v", end, err)
		}
	}
}

// SQL cannot change the journal.
func TestLedgerTriggers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("a"), credited("a", "c1", money.Dollar))
	for _, text := range []string{
		"UPDATE ledger_transactions SET memo = 'x'", "DELETE FROM ledger_transactions", "UPDATE ledger_postings SET amount = 0", "DELETE FROM ledger_postings",
		"INSERT INTO ledger_postings VALUES (1, 1100, 5)", "INSERT INTO ledger_postings VALUES (3, 1100, 5)",
	} {
		if _, err := w.db.writer.ExecContext(t.Context(), text); err == nil || !strings.Contains(err.Error(), "ledger") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLedgerVerifyFindsEachChange changes one byte in each column of the ledger, and removes rows from the end.
func TestLedgerVerifyFindsEachChange(t *testing.T) {
	t.Parallel()
	changes := map[string]string{
		"DELETE FROM ledger_transactions WHERE number = 4":                                              "was written up to transaction 4",
		"DELETE FROM ledger_transactions WHERE number = 2":                                              "transaction 2 is missing",
		"DELETE FROM ledger_postings WHERE number = 2":                                                  "transaction 2 (credit/c2) does not fit its hash",
		"DELETE FROM ledger_balances WHERE account = 2100":                                              `the balance of account 2100 of "org_a" is missing`,
		"INSERT INTO ledger_balances VALUES ('org_x', 'USD', 1100, 1)":                                  `account 1100 of "org_x" in USD is 0.000000001`,
		"INSERT INTO ledger_postings VALUES (9, 1100, 1)":                                               "transaction 9 has postings and does not exist",
		"DELETE FROM ledger_head":                                                                       "was written up to transaction 0",
		"UPDATE credits SET rest = rest + 1 WHERE id = 'c1'":                                            `the credits of "org_a" have unused rests`,
		"UPDATE ledger_postings SET amount = amount + amount WHERE number = 1":                          "transaction 1 (credit/c1) does not fit its hash",
		"UPDATE ledger_transactions SET hash = x'00' WHERE number = 3":                                  "transaction 3: ",
		"UPDATE ledger_postings SET account = account + 4294967296 WHERE number = 3 AND account = 2100": "a posting of transaction 3: ",
	}
	unreadable := map[string]bool{ // no number or hash at all: these are errors of reading
		"UPDATE ledger_transactions SET hash = x'00' WHERE number = 3":                                  true,
		"UPDATE ledger_postings SET account = account + 4294967296 WHERE number = 3 AND account = 2100": true,
	}
	path := filledLedger(t)
	for table, want := range map[string]string{
		"ledger_transactions": "transaction 2 ", "ledger_postings": "transaction 2 (credit/c2) does not fit its hash", "ledger_head": "it ", "ledger_balances": "balance of account",
	} {
		for _, column := range columnsOf(t, path, table) {
			changes["flip "+table+" "+column] = want
		}
	}
	if n := len(changes); n != 11+10+3+4+4 {
		t.Errorf("%d changes are made", n)
	}
	for change, want := range changes {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, path: copyDir(t, path, "-shm")}
			w.open()
			defer func() { _ = w.machine.close() }()
			w.turnBack(`DROP TRIGGER ledger_transactions_update; DROP TRIGGER ledger_transactions_delete; DROP TRIGGER ledger_postings_update;
				DROP TRIGGER ledger_postings_delete; DROP TRIGGER ledger_postings_insert`)
			flipped := strings.Fields(change)
			if flipped[0] == "flip" {
				w.flip(flipped[1], flipped[2])
			} else {
				w.turnBack(change)
			}
			err := w.machine.read(t.Context(), func(r reader) error {
				_, err := verifyLedger(r, nil)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), want) || (refused(err, api.Unhealthy) != nil) != unreadable[change] {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// columnsOf lists the columns of a table without the key of a table with one row.
func columnsOf(t *testing.T, path, table string) []string {
	t.Helper()
	w := &world{t: t, path: copyDir(t, path, "-shm")}
	w.open()
	defer func() { _ = w.machine.close() }()
	return ask(w, func(r reader) ([]string, error) {
		return list(r, scalar[string], "SELECT name FROM pragma_table_info('"+table+"') WHERE name <> 'one' ORDER BY cid")
	})
}

// flip changes one bit of a column in one row of a table.
func (w *world) flip(table, column string) {
	w.t.Helper()
	where := map[string]string{"ledger_transactions": " WHERE number = 2", "ledger_postings": " WHERE number = 2 AND account = 2100", "ledger_balances": " WHERE account = 2100"}[table]
	value := ask(w, func(r reader) (any, error) {
		value, found, err := first(r, scalar[any], "SELECT "+column+" FROM "+table+where)
		if !found {
			w.t.Fatalf("%s has no such row", table)
		}
		return value, err
	})
	switch v := value.(type) {
	case int64:
		value = v ^ 1<<6
	case string:
		value = flipText(v)
	case []byte:
		v[len(v)/2] ^= 1
	}
	if _, err := w.db.writer.ExecContext(w.t.Context(), "UPDATE "+table+" SET "+column+" = ?"+where, value); err != nil {
		w.t.Fatal(err)
	}
}

func flipText(s string) string {
	if s == "" {
		return "\x01"
	}
	b := []byte(s)
	b[len(b)-1] ^= 1
	return string(b)
}

// filledLedger returns the directory of a state with a ledger of four transactions, the last of which closes a month.
func filledLedger(t *testing.T) string {
	t.Helper()
	w := newWorld(t)
	w.ok(newOrg("a"), newOrg("b"), newKey(keyring.CloudOperator, "", "op2"))
	w.pass(time.Second)
	large := credited("a", "c2", 2000*money.Dollar)
	w.ok(credited("a", "c1", 3*money.Dollar), large, approving("op2", "c2"), &RevokeCredit{Meta: by("op"), Id: "c1", Reason: "a mistake"})
	w.passTo("2023-12-01")
	w.ok(closing("2023-11"))
	w.books()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return w.path
}

// TestLedgerFile verifies and exports the ledger of a directory that no process has open, of one in use, and of a copy
// without SQLite's log. It changes no file of them.
func TestLedgerFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(newOrg("a"), credited("a", "c1", 3*money.Dollar))
	data := t.TempDir()
	if err := os.Symlink(w.path, filepath.Join(data, "state")); err != nil {
		t.Fatal(err)
	}
	inUse := exportLedger(t, data)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	if err := os.Symlink(copyDir(t, w.path, "-shm", "-wal"), filepath.Join(copied, "state")); err != nil {
		t.Fatal(err)
	}
	before := content(t, filepath.Join(copied, "state"))
	for range 2 {
		if got := exportLedger(t, copied); got != inUse {
			t.Errorf("the copy has\n%s\nthe directory in use\n%s", got, inUse)
		}
	}
	if got := content(t, filepath.Join(copied, "state")); got != before {
		t.Errorf("the export has changed the files from\n%s\nto\n%s", before, got)
	}
	for _, line := range []string{"\n1,2023-11-14T22:13:20Z,credit/c1,org_a,USD,2100,credits_outstanding,,3,,op,,for the outage,", "\n2100,credits_outstanding,USD,0,3,3,credit\n"} {
		if !strings.Contains(inUse, line) {
			t.Errorf("%q is missing in\n%s", line, inUse)
		}
	}
	if _, err := OpenLedgerFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not the data directory of a process of the control plane") {
		t.Errorf("an empty directory: %v", err)
	}
}

// exportLedger returns both exports of a data directory.
func exportLedger(t *testing.T, dir string) string {
	t.Helper()
	l, err := OpenLedgerFile(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	books, err := l.Verify(context.Background())
	if err != nil || books.Number == 0 {
		t.Fatalf("%+v: %v", books, err)
	}
	var journal, balance bytes.Buffer
	if _, err := l.Export(t.Context(), &journal, &balance); err != nil {
		t.Fatal(err)
	}
	return journal.String() + balance.String()
}

// content lists the files of a directory with their hashes.
func content(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", f.Name(), hash(string(text)))
	}
	return b.String()
}
