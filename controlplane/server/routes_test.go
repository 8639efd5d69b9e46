package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	wire "github.com/corvo/corvo/api/fleet"
	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/tenancy"
)

// golden compares with a file, or writes the file under -rewrite.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what the table says now; look at the difference and run the test with -rewrite", path)
	}
}

// The OpenAPI document matches the table of routes.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	got, err := document((&Server{}).routes())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "api", "spec", "cloud-openapi.json"), append(got, '\n'))
}

// forMembers reports whether memberOnly guards a route.
func forMembers(r serve.Route) bool {
	return strings.HasPrefix(r.Path, "/fleet/v1/") && r.Path != wire.JoinPath
}

// The golden file lists the permission of each route.
func TestPermissionMatrix(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	roles := slices.Concat(tenancy.Roles(), tenancy.TokenRoles(), tenancy.CloudRoles())
	fmt.Fprintf(&b, "%-62s %-16s", "route", "permission")
	for _, role := range roles {
		fmt.Fprintf(&b, " %-14s", role)
	}
	for _, r := range (&Server{}).routes() {
		name, permission := r.Method+" "+r.Path, string(r.Permission)
		if r.Unbuilt {
			name += " (501)"
		}
		may := func(role tenancy.Role) bool { return r.Permission == serve.Open || role.Grants(r.Permission) }
		if forMembers(r) {
			permission = "a member's token"
			may = func(role tenancy.Role) bool { return rights[role] != "" && role.Grants(rights[role]) }
		}
		fmt.Fprintf(&b, "\n%-62s %-16s", name, permission)
		for _, role := range roles {
			word := "-"
			if may(role) {
				word = "yes"
			}
			fmt.Fprintf(&b, " %-14s", word)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	golden(t, filepath.Join("testdata", "permissions.golden"), []byte(strings.Join(lines, "\n")+"\n"))
}

// Few routes are open to everyone. memberOnly guards the routes of hosts and gateways, which the table
// declares open; TestAuthorisation tries each of them.
func TestOpenRoutes(t *testing.T) {
	t.Parallel()
	open := map[string]bool{
		"GET /healthz": true, "GET /readyz": true, "GET /cloud/v1/openapi.json": true,
		"GET /.well-known/jwks.json": true, "POST /webhooks/stripe": true,
	}
	for _, r := range (&Server{}).routes() {
		name := r.Method + " " + r.Path
		if (r.Permission == serve.Open) != (open[name] || forMembers(r) || r.Summary == elsewhereSummary) {
			t.Errorf("%s: permission %q", name, r.Permission)
		}
	}
}

// Summaries are headings of at most twelve words, and descriptions are sentences.
func TestSummariesAreShort(t *testing.T) {
	t.Parallel()
	for _, r := range (&Server{}).routes() {
		if n := len(strings.Fields(r.Summary)); n == 0 || n > 12 || strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%s %s has a summary of %d words: %q", r.Method, r.Path, n, r.Summary)
		}
		if r.Description != "" && !strings.HasSuffix(r.Description, ".") {
			t.Errorf("%s %s has a description without a full stop: %q", r.Method, r.Path, r.Description)
		}
	}
}
