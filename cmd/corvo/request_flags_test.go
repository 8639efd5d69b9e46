package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/corvo/corvo/api"
)

// TestEdits checks that flags apply in their order to the current request, and that a secret is read once,
// without the end of its line.
func TestEdits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret of two words\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var made edits[api.WebhookRequest]
	cmd := &cobra.Command{}
	made.bind(cmd, append(webhooks.flags, webhooks.renames...)...)
	if err := cmd.ParseFlags([]string{"--secret-file", file, "--events", "a,b", "--retry-limit", "4", "--enabled", "--retry-limit", "none", "--events", "c"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	limit, disabled := 9, false
	req := api.WebhookRequest{URL: "https://example.com", Events: []string{"x"}, Enabled: &disabled, RetryLimit: &limit}
	made.apply(&req)
	want := api.WebhookRequest{URL: "https://example.com", Secret: "a secret of two words", Events: []string{"c"}, Enabled: new(true)}
	if diff := cmp.Diff(want, req); diff != "" {
		t.Errorf("it asks for (-want +got):\n%s", diff)
	}
}
