package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/billing"
	"github.com/corvo/corvo/cmd/internal/misuse"
	"github.com/corvo/corvo/controlplane/store"
	"github.com/corvo/corvo/durable"
)

// newLedger makes the commands about the ledger. verify and export read files, so that an auditor needs no server and
// no key.
func newLedger() *cobra.Command {
	ledger := misuse.Group(&cobra.Command{Use: "ledger", Short: "Show, close, verify and export the ledger"})
	ledger.AddCommand(newLedgerShow(), newLedgerClose(), newLedgerVerify(), newLedgerExport())
	return ledger
}

func newLedgerShow() *cobra.Command {
	var cfg operating
	return command("show", "Print the balances of the ledger's accounts", &cfg, &cfg.Config, func(ctx context.Context, cmd *cobra.Command) error {
		c, err := cfg.open()
		if err != nil {
			return err
		}
		defer c.Close()
		l, err := c.Ledger(ctx)
		if err != nil {
			return err
		}
		return printLedger(cmd.OutOrStdout(), l)
	})
}

// closing names the month to close.
type closing struct {
	operating
	Month string `flag:"month" doc:"calendar month in UTC, such as 2026-02; required"`
}

func (c *closing) check(f *misuse.Faults) {
	c.operating.check(f)
	f.Refuse(c.Month != "", "--month is missing: it names a calendar month, such as 2026-02")
}

func newLedgerClose() *cobra.Command {
	var cfg closing
	return command("close", "Close a month of the ledger for ever", &cfg, &cfg.Config, func(ctx context.Context, cmd *cobra.Command) error {
		c, err := cfg.open()
		if err != nil {
			return err
		}
		defer c.Close()
		l, err := c.CloseMonth(ctx, cfg.Month)
		if err != nil {
			return err
		}
		return printLedger(cmd.OutOrStdout(), l)
	})
}

// printLedger prints the balance of each account, a debit positive and a credit negative, and the end of the ledger.
func printLedger(w io.Writer, l api.Ledger) error {
	for _, a := range l.Accounts {
		if _, err := fmt.Fprintf(w, "%d  %-20s %-6s  %s\n", a.Account, a.Name, a.Kind, a.BalanceUSD); err != nil {
			return err
		}
	}
	closed := "no month is closed"
	if l.ClosedUntil != nil {
		closed = "closed until " + string(*l.ClosedUntil)
	}
	_, err := fmt.Fprintf(w, "%d transactions, the last hash is %s; %s\n", l.Transactions, l.Hash, closed)
	return err
}

// ledgerFiles names the files that verify and export read.
type ledgerFiles struct {
	DataDir string `flag:"data-dir" default:"data" doc:"data directory of corvo-cloud server or dev, or a copy of it"`
	Config  string `flag:"config" doc:"file with settings, one 'flag-name: value' a line (YAML)"`
}

func (c *ledgerFiles) check(f *misuse.Faults) { f.Refuse(c.DataDir != "", "--data-dir is empty") }

// open opens the ledger of the directory.
func (c *ledgerFiles) open() (*store.LedgerFile, error) {
	return store.OpenLedgerFile((&serverConfig{DataDir: c.DataDir}).planeDir())
}

func newLedgerVerify() *cobra.Command {
	var cfg ledgerFiles
	cmd := command("verify", "Verify the ledger in a data directory or a copy", &cfg, &cfg.Config, func(ctx context.Context, cmd *cobra.Command) (err error) {
		l, err := cfg.open()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		books, err := l.Verify(ctx)
		if err != nil {
			return err
		}
		return printVerified(cmd.OutOrStdout(), books)
	})
	cmd.Long = "Verify the ledger in a data directory or a copy of it. The command recomputes the hash chain, the sums of all\n" +
		"transactions, the balances and the closed months. It needs no server and changes nothing. It exits with 1 and names\n" +
		"the first transaction with a fault."
	return cmd
}

// printVerified prints the end of a verified ledger, which the auditor keeps for the next verification.
func printVerified(w io.Writer, books billing.Books) error {
	closed := "no month is closed"
	if books.ClosedNs != 0 {
		closed = "closed until " + time.Unix(0, books.ClosedNs).UTC().Format(time.RFC3339)
	}
	_, err := fmt.Fprintf(w, "verified up to transaction %d; its hash is %x; %s\n", books.Number, books.Hash, closed)
	return err
}

// exporting names the directory of the exports.
type exporting struct {
	ledgerFiles
	Out string `flag:"out" doc:"directory for journal.csv and trial-balance.csv; required"`
}

func (c *exporting) check(f *misuse.Faults) {
	c.ledgerFiles.check(f)
	f.Refuse(c.Out != "", "--out is missing: it names the directory for the files")
}

func newLedgerExport() *cobra.Command {
	var cfg exporting
	cmd := command("export", "Write the ledger's journal and trial balance as CSV", &cfg, &cfg.Config, func(ctx context.Context, cmd *cobra.Command) (err error) {
		l, err := cfg.open()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, l.Close()) }()
		books, err := cfg.export(ctx, l)
		if err != nil {
			return err
		}
		return printVerified(cmd.OutOrStdout(), books)
	})
	cmd.Long = "Write the ledger's journal and trial balance as CSV. The command verifies the ledger first, as verify does. The files\n" +
		"of one ledger are always the same bytes."
	return cmd
}

// export writes both files under temporary names, and renames them once both are complete.
func (c *exporting) export(ctx context.Context, l *store.LedgerFile) (books billing.Books, err error) {
	if err := durable.MakeDir(c.Out, 0o700); err != nil {
		return books, err
	}
	var files [2]*os.File
	for i := range files {
		if files[i], err = os.CreateTemp(c.Out, ".export-*"); err != nil {
			return books, err
		}
		defer func() {
			_ = files[i].Close()
			_ = os.Remove(files[i].Name()) // it is gone unless the export has failed
		}()
	}
	if books, err = l.Export(ctx, files[0], files[1]); err != nil {
		return books, err
	}
	for i, name := range []string{"journal.csv", "trial-balance.csv"} {
		if err := durable.Keep(files[i], filepath.Join(c.Out, name)); err != nil {
			return books, err
		}
	}
	return books, nil
}
