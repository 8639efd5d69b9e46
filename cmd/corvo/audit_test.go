package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/client"
)

// TestAuditCommands verifies a node's log, an export of it, and a changed export.
func TestAuditCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	env := []string{"CORVO_ENDPOINT=" + p.endpoint, "CORVO_API_KEY=" + adminKey(t, dir)}
	c := newClient(t, p.endpoint, adminKey(t, dir))
	eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
	for _, queue := range []string{"a", "b", "c"} {
		if err := c.PauseQueue(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	ends := func(code int, want string, args ...string) string {
		t.Helper()
		a := corvo(t, env, append([]string{"admin", "audit"}, args...)...)
		if a.code != code || !strings.Contains(a.stdout+a.stderr, want) {
			t.Errorf("%v ended with %d: %s%s", args, a.code, a.stdout, a.stderr)
		}
		return a.stdout
	}
	ends(0, "/api/v1/queues/b/pause", "list")
	if out := ends(0, "set-queue", "list", "--path", "/api/v1/queues/c"); strings.Contains(out, "queues/b") {
		t.Errorf("the filter lets through\n%s", out)
	}
	ends(2, "status", "list", "--status", "often")
	ends(0, "the hash chains are intact", "verify")

	export := ends(0, `"seq":3`, "export")
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	verify := func(code int, want, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		ends(code, want, "verify", "--file", file)
	}
	verify(0, "the hash chains are intact", export)
	verify(1, "record 2 (POST /api/v1/queues/x/pause) does not fit its hash", strings.Replace(export, "queues/b/", "queues/x/", 1))
	lines := strings.SplitAfter(export, "\n")
	verify(1, "record 2 is missing", lines[0]+lines[2])
	verify(1, "line 2 is no audit record", lines[0]+"{")
	ends(1, "no such file", "verify", "--file", filepath.Join(t.TempDir(), "nothing"))
}
