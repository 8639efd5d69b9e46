package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/corvo/corvo/billing"
)

// LedgerFile is the ledger in the state's file of a data directory or of a copy of one. Opening and reading it changes
// no file of the state, so that an auditor needs no running control plane.
type LedgerFile struct{ db *sql.DB }

// OpenLedgerFile opens the ledger in the data directory of a process of the control plane. It does not lock the
// directory. It refuses a directory without a state, and a state without a ledger.
func OpenLedgerFile(dir string) (_ *LedgerFile, err error) {
	state := filepath.Join(dir, "state")
	name, err := os.ReadFile(filepath.Join(state, currentName))
	if err != nil {
		return nil, fmt.Errorf("%s is not the data directory of a process of the control plane: %w", dir, err)
	}
	of := directory{path: state}
	if err := of.read(string(name)); err != nil {
		return nil, err
	}
	text := dsn(of.current(), "ro", "query_only(1)")
	// Without SQLite's log nobody writes the file, and SQLite may then read it from a medium that is read-only.
	if _, err := os.Stat(of.current() + "-wal"); errors.Is(err, fs.ErrNotExist) {
		text += "&immutable=1"
	}
	db, err := sql.Open("sqlite", text)
	if err != nil {
		return nil, err
	}
	has, err := number(pool{db}, "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'ledger_head'")
	switch {
	case err != nil:
		err = fmt.Errorf("open the state in %s: %w; if its disk is read-only, copy the directory to another one, because SQLite writes a file beside its log", dir, err)
	case has == 0:
		err = fmt.Errorf("the state in %s has no ledger: an earlier version has written it", dir)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &LedgerFile{db}, nil
}

// Close closes the file.
func (l *LedgerFile) Close() error { return l.db.Close() }

// Verify recomputes the ledger and returns its sums. If the ledger has a fault, the error is UNHEALTHY and describes
// the first one, with its transaction.
func (l *LedgerFile) Verify(ctx context.Context) (billing.Books, error) { return l.each(ctx, nil) }

// Export verifies the ledger and writes its journal and its trial balance as CSV. After an error, what was written has
// no meaning.
func (l *LedgerFile) Export(ctx context.Context, journal, trialBalance io.Writer) (billing.Books, error) {
	out, err := billing.NewJournalWriter(journal)
	if err != nil {
		return billing.Books{}, err
	}
	books, err := l.each(ctx, out.Write)
	if err == nil {
		err = errors.Join(out.Close(), books.WriteTrialBalance(trialBalance))
	}
	return books, err
}

// each verifies the ledger in one transaction, so that a running process does not change it meanwhile.
func (l *LedgerFile) each(ctx context.Context, f func(billing.Transaction) error) (books billing.Books, err error) {
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return books, err
	}
	books, err = verifyLedger(reader{ctx: ctx, tx: tx}, f)
	return books, errors.Join(err, tx.Rollback())
}
