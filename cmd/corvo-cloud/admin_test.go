package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestAdminAuditVerify verifies the audit log of a control plane, damages one row in its
// database while it is stopped, and verifies again.
func TestAdminAuditVerify(t *testing.T) {
	t.Parallel()
	p := &parts{t: t, dir: t.TempDir()}
	serve := func() (url string) {
		p.server = start(t, "the control plane listens on", "server", "--bind", "127.0.0.1:0",
			"--data-dir", filepath.Join(p.dir, "server"), "--endpoint", "http://127.0.0.1:1")
		return "https://" + listening(p.server)
	}
	url, keyFile := serve(), filepath.Join(p.dir, "server", operatorKeyFile)
	verify := func(more ...string) (int, string) {
		return ends(t, nil, append([]string{"admin", "audit", "verify", "--control-plane", url}, more...)...)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	operator := newCloud(t, url, strings.TrimSpace(string(key)), trusting(t, filepath.Join(p.dir, "server")))
	org, err := operator.CreateOrg(t.Context(), api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if code, says := verify("--operator-key-file", keyFile); code != 0 {
		t.Fatalf("ended with %d: %s", code, says)
	}
	if code, says := verify("--operator-key-file", filepath.Join(p.dir, "none")); code != 2 || !strings.Contains(says, "--operator-key-file") {
		t.Errorf("without a key it ended with %d: %s", code, says)
	}
	token, err := operator.CreateToken(t.Context(), org.ID, api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "t", Roles: []string{"admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	binary := proctest.Build(t, "../..", "./cmd/corvo-cloud")
	listed, err := exec.CommandContext(t.Context(), binary, "admin", "audit", "list", "--control-plane", url, "--operator-key-file", keyFile, "--org", "acme").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(listed), "\n"); n != 2 {
		t.Errorf("the list has %d lines, want 2:\n%s", n, listed)
	}
	for _, part := range []string{`"org":"` + org.ID + `","principal":`, `"action":"create-org"`} {
		if !strings.Contains(string(listed), part) {
			t.Errorf("the list lacks %s:\n%s", part, listed)
		}
	}
	tenants := filepath.Join(p.dir, "server", "tenant.key") // beside the root
	if err := os.WriteFile(tenants, []byte(token.APIKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, says := verify("--operator-key-file", tenants); code != 1 || !strings.Contains(says, "FORBIDDEN") {
		t.Errorf("with a tenant's token it ended with %d: %s", code, says)
	}

	if err := p.server.Terminate(t); err != nil {
		t.Fatal(err)
	}
	seq := damageAudit(t, filepath.Join(p.dir, "server"), org.ID)
	url = serve()
	if code, says := verify("--operator-key-file", keyFile); code != 1 || !strings.Contains(says, fmt.Sprintf("row %d (create-org", seq)) {
		t.Errorf("of a damaged log it ended with %d: %s, want row %d", code, says, seq)
	}
}

// damageAudit changes the row that an organisation's creation left, in the database below
// dir, and returns its number.
func damageAudit(t *testing.T, dir, org string) (seq int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(content), "SQLite format 3") {
			return err
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return err
		}
		defer db.Close()
		if _, err := db.Exec("DROP TRIGGER audit_update"); err != nil {
			return err
		}
		return db.QueryRow("UPDATE audit SET principal = 'somebody' WHERE action = 'create-org' AND target = ? RETURNING seq", org).Scan(&seq)
	})
	if err != nil || seq == 0 {
		t.Fatalf("no row was damaged: row %d, %v", seq, err)
	}
	return seq
}
