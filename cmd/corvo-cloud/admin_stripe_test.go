package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/billing/stripe/stripefake"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestAdminStripe sets a fake Stripe up twice and checks it, with the key in a file and in the environment.
func TestAdminStripe(t *testing.T) {
	t.Parallel()
	fake := httptest.NewServer(stripefake.New(stripefake.Config{}))
	t.Cleanup(fake.Close)
	dir := t.TempDir()
	keyFile, secretFile := filepath.Join(dir, "key"), filepath.Join(dir, "secret")
	if err := os.WriteFile(keyFile, []byte(stripefake.DefaultKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wants := func(code int, want string, env []string, command string, more ...string) {
		t.Helper()
		line := append([]string{"admin", "stripe", command, "--stripe-url", fake.URL, "--webhook-url", "https://cloud.example.com/cloud/v1/webhooks/stripe",
			"--return-url", "https://app.example.com/billing", "--webhook-secret-file", secretFile}, more...)
		cmd := exec.CommandContext(t.Context(), proctest.Build(t, "../..", "./cmd/corvo-cloud"), line...)
		cmd.Env = append(os.Environ(), env...)
		says, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code || !regexp.MustCompile(want).Match(says) {
			t.Errorf("%s ended with %v, want %d and %s:\n%s", command, err, code, want, says)
		}
	}
	byFile := []string{"--stripe-key-file", keyFile}
	wants(2, `--stripe-key-file is missing`, nil, "check")
	wants(2, `--stripe-key-file: open`, nil, "check", "--stripe-key-file", filepath.Join(dir, "none"))
	wants(2, `--return-url is "frob"; it must be a URL`, nil, "check", "--return-url", "frob")
	wants(1, `the secret key is not accepted by Stripe`, []string{"CORVO_STRIPE_KEY=sk_test_other"}, "check")
	wants(1, `(?s)meter corvo_input_tokens is missing\n.*run corvo-cloud admin stripe setup`, nil, "check", byFile...)
	wants(0, `(?s)created meter corvo_input_tokens\n.*created the portal configuration\ncreated the webhook endpoint\nStripe is set up`, nil, "setup", byFile...)
	wants(0, `^Stripe is set up; the webhook secret is in `, []string{"CORVO_STRIPE_KEY=" + stripefake.DefaultKey}, "setup")
	wants(0, `^Stripe is set up\n`, nil, "check", byFile...)
	secret, err := os.ReadFile(secretFile)
	info, statErr := os.Stat(secretFile)
	if err != nil || statErr != nil || !strings.HasPrefix(string(secret), "whsec_") || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret's file: %v, %v, %v", err, statErr, info)
	}
}
