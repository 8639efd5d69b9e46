package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestOneURL uses a cloud of parts through the gateway's URL alone, and logs in at each part.
func TestOneURL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	p := startParts(t)
	control := p.operator
	key, err := os.ReadFile(filepath.Join(p.dir, "server", operatorKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	p.operator = newCloud(t, p.gatewayRelay.URL, strings.TrimSpace(string(key)), client.WithRetries(8))
	org, err := p.operator.CreateOrg(ctx, api.CreateOrgRequest{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	a := p.newTenant(ctx, org.ID, "a") // waits for its operation through the gateway
	p.runJob(ctx, a)
	made, err := p.operator.CreateToken(ctx, org.ID, api.CreateCloudKeyRequest{CreateKeyRequest: api.CreateKeyRequest{Name: "ci", Roles: []string{"admin"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]struct{ url, says string }{
		"gateway":       {p.gatewayRelay.URL, "is logged in"},
		"control plane": {secure(p.control), "is logged in"},
		"host":          {secure(p.far), "failed to verify certificate"},
	} {
		if got := login(t, at.url, made.APIKey, "SSL_CERT_FILE="+filepath.Join(p.dir, "server", rootFile)); !strings.Contains(got, at.says) {
			t.Errorf("login at the %s: %s", name, got)
		}
	}
	for path, want := range map[string]string{"/openapi.json": "/api/v1/enqueue", "/cloud/v1/openapi.json": "/cloud/v1/orgs"} {
		if paths := documented(t, p.gatewayRelay.URL+path); paths[want] == nil {
			t.Errorf("%s does not document %s", path, want)
		}
	}

	p.server.Kill(t)
	once := newCloud(t, p.gatewayRelay.URL, made.APIKey)
	if _, err := once.Orgs(ctx); api.CodeOf(err) != api.LeaderUnavailable {
		t.Errorf("the cloud API without the control plane: %v", err)
	}
	p.runJob(ctx, a)
	p.startServer()
	if _, err := p.operator.Org(ctx, org.ID); err != nil {
		t.Error(err)
	}
	if _, err := control.Org(ctx, org.ID); err != nil {
		t.Error(err)
	}
}

// login runs `corvo login` with additional variables and returns its output.
func login(t *testing.T, endpoint, token string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), proctest.Build(t, "../..", "./cmd/corvo"), "login", "--endpoint", endpoint, "--token-file", "-")
	cmd.Env = append(append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "CORVO_ENDPOINT=", "CORVO_PROFILE="), env...)
	cmd.Stdin = strings.NewReader(token)
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

// documented returns the paths of an OpenAPI document.
func documented(t *testing.T, url string) map[string]any {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var document struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	return document.Paths
}
