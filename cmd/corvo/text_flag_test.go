package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAnEmptyFlagIsRefused checks that an empty flag, such as one of an unset variable, sends no request to
// another server.
func TestAnEmptyFlagIsRefused(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	prod := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(prod.Close)
	config, path := withProfiles(t, 0o600, `
profile: prod
profiles:
  prod: {endpoint: `+prod.URL+`, api-key: key}
`)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"destroy q --confirm --endpoint", "pause q --api-key", "pause q --api-key-file", "pause q --cloud-token-file", "pause q --namespace", "pause q --profile",
		"login --endpoint", "login --token-file", "login --profile", "login --namespace", "profiles set prod --endpoint", "profiles set prod --namespace",
		"keys create k --secret-file", "cloud namespaces list --org", "bulk delete --filter",
	} {
		words := strings.Fields(line)
		flag := words[len(words)-1]
		for _, given := range [][]string{{flag, ""}, {flag + "="}} {
			a := corvo(t, []string{config, "CORVO_ENDPOINT=", "CORVO_API_KEY="}, append(words[:len(words)-1:len(words)-1], given...)...)
			if a.code != exitMisuse || !strings.Contains(a.stderr, flag) || !strings.Contains(a.stderr, "it is empty") {
				t.Errorf("corvo %s: %d, %s%s", line, a.code, a.stdout, a.stderr)
			}
		}
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(was) || asked.Load() > 0 {
		t.Errorf("the server was asked %d times; the profiles are %s, %v", asked.Load(), now, err)
	}
}

// TestWhatFitsNoHeaderIsMisuse checks that text unfit for a header is refused with the name of its source.
func TestWhatFitsNoHeaderIsMisuse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte("cv_a\ncv_b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, _ := withProfiles(t, 0o600, `
profiles:
  kept: {api-key: "a\nb"}
  file: {api-key-file: `+file+`}
  fine: {cloud-token: t}
`)
	for _, c := range []struct {
		env, line, names, says string
	}{
		{"CORVO_API_KEY=cv_a\ncv_b", "queues", "CORVO_API_KEY", "one line"},
		{"CORVO_API_KEY=cv_a\n", "queues", "CORVO_API_KEY", "one line"},
		{"CORVO_API_KEY=cv_\x01", "queues", "CORVO_API_KEY", "control character"},
		{"", "queues --api-key-file " + file, "--api-key-file " + file, "one line"},
		{"", "queues --api-key a\x7fb", "--api-key:", "control character"},
		{"CORVO_CLOUD_TOKEN=a\nb", "cloud orgs", "CORVO_CLOUD_TOKEN", "one line"},
		{"", "cloud orgs --cloud-token-file " + file, "--cloud-token-file " + file, "one line"},
		{"", "login --token-file " + file, "--token-file " + file, "one line"},
		{"", "profiles set new --api-key-file " + file, "--api-key-file", "one line"},
		{"", "queues --profile kept", "api-key of the profile", "one line"},
		{"", "queues --profile file", "api-key-file " + file + " of the profile", "one line"},
		{"CORVO_NAMESPACE=a\nb", "queues --profile fine", "CORVO_NAMESPACE", "one line"},
	} {
		env := []string{config, "CORVO_ENDPOINT=http://127.0.0.1:8080", "CORVO_API_KEY=", "CORVO_CLOUD_TOKEN=", c.env}
		if a := corvo(t, env, strings.Split(c.line, " ")...); a.code != exitMisuse || !strings.Contains(a.stderr, c.names) || !strings.Contains(a.stderr, c.says) {
			t.Errorf("%q corvo %s: %d, %s", c.env, c.line, a.code, a.stderr)
		}
	}
}
