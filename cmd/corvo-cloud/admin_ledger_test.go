package main

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestAdminLedger closes a month of a running control plane, verifies its ledger while it runs and after it has ended,
// exports the ledger twice, and verifies it after a changed row.
func TestAdminLedger(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "control")
	server := start(t, "the control plane listens on", "server", "--bind", "127.0.0.1:0", "--data-dir", dir, "--endpoint", "http://127.0.0.1:1")
	url, keyFile := "https://"+listening(server), filepath.Join(dir, operatorKeyFile)
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	operator := newCloud(t, url, strings.TrimSpace(string(key)), trusting(t, dir))
	if _, err := operator.CreateOrg(t.Context(), api.CreateOrgRequest{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	binary := proctest.Build(t, "../..", "./cmd/corvo-cloud")
	wants := func(code int, want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"admin", "ledger"}, args...)...)
		says, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code || !regexp.MustCompile(want).Match(says) {
			t.Errorf("%v ended with %v, want %d and %s:\n%s", args, err, code, want, says)
		}
	}
	online := []string{"--control-plane", url, "--operator-key-file", keyFile}
	wants(0, `verified up to transaction 0; its hash is 0{64}; no month is closed`, "verify", "--data-dir", dir)
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC).Format("2006-01")
	wants(0, `(?s)2100  credits_outstanding  credit  0\n.*1 transactions, .*closed until `, append([]string{"close", "--month", month}, online...)...)
	wants(1, `STATE_CONFLICT: `+month+` is closed already`, append([]string{"close", "--month", month}, online...)...)
	wants(2, `--month is missing`, append([]string{"close"}, online...)...)
	credit, err := operator.GrantCredit(t.Context(), "acme", api.GrantCreditRequest{AmountUSD: 12_500_000_000, Reason: "for the outage"})
	if err != nil {
		t.Fatal(err)
	}
	wants(0, `(?s)2100  credits_outstanding  credit  -12.5\n.*2 transactions, the last hash is [0-9a-f]{64}`, append([]string{"show"}, online...)...)
	wants(0, `verified up to transaction 2; its hash is [0-9a-f]{64}; closed until `, "verify", "--data-dir", dir)
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	wants(0, `verified up to transaction 2`, "export", "--data-dir", dir, "--out", first)
	if err := server.Terminate(t); err != nil {
		t.Fatal(err)
	}
	wants(0, `verified up to transaction 2`, "export", "--data-dir", dir, "--out", second)
	wants(2, `--out is missing`, "export", "--data-dir", dir)
	for name, want := range map[string]string{"journal.csv": "credit/" + credit.ID + ",", "trial-balance.csv": "\n2100,credits_outstanding,USD,0,12.5,12.5,credit\n"} {
		one, err := os.ReadFile(filepath.Join(first, name))
		if err != nil || !strings.Contains(string(one), want) {
			t.Errorf("%s: %v, %q is not in\n%s", name, err, want, one)
		}
		if two, err := os.ReadFile(filepath.Join(second, name)); err != nil || string(one) != string(two) {
			t.Errorf("%s differs after the end: %v\n%s\n%s", name, err, one, two)
		}
	}
	if files, err := os.ReadDir(second); err != nil || len(files) != 2 {
		t.Errorf("the export left %v: %v", files, err)
	}
	raiseCredit(t, dir)
	wants(1, `UNHEALTHY: the ledger was changed: transaction 2 \(credit/`+credit.ID+`\) does not fit its hash`, "verify", "--data-dir", dir)
	wants(1, `transaction 2`, "export", "--data-dir", dir, "--out", filepath.Join(t.TempDir(), "third"))
	wants(1, `is not the data directory of a process of the control plane`, "verify", "--data-dir", t.TempDir())
}

// raiseCredit raises the amounts of the last transaction of the ledger in a data directory.
func raiseCredit(t *testing.T, dir string) {
	t.Helper()
	states, err := filepath.Glob(filepath.Join(dir, "controlplane", "state", "state-*.db"))
	if err != nil || len(states) != 1 {
		t.Fatalf("%v: %v", states, err)
	}
	db, err := sql.Open("sqlite", states[0])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DROP TRIGGER ledger_postings_update; UPDATE ledger_postings SET amount = amount * 2 WHERE number = 2"); err != nil {
		t.Fatal(err)
	}
}
