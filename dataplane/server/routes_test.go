package server_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/serve"
	"github.com/corvo/corvo/dataplane/server"
	"github.com/corvo/corvo/tenancy"
)

// The OpenAPI document follows from the table of routes.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	got, err := server.Document((&server.Server{}).Routes())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "api", "spec", "openapi.json"), append(got, '\n'))
}

// Summaries are headings of at most twelve words, and descriptions are sentences.
func TestSummariesAreShort(t *testing.T) {
	t.Parallel()
	for _, r := range (&server.Server{}).Routes() {
		if n := len(strings.Fields(r.Summary)); n == 0 || n > 12 || strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%s %s has a summary of %d words: %q", r.Method, r.Path, n, r.Summary)
		}
		if r.Description != "" && !strings.HasSuffix(r.Description, ".") {
			t.Errorf("%s %s has a description without a full stop: %q", r.Method, r.Path, r.Description)
		}
	}
}

// A summary has the right article before a resource's name.
func TestSummariesHaveTheirArticle(t *testing.T) {
	t.Parallel()
	wrong := regexp.MustCompile(`\b[Aa] ([aeiAEI]|o[^n])\w+`)
	for _, r := range (&server.Server{}).Routes() {
		if text := wrong.FindString(r.Summary); text != "" {
			t.Errorf("%s %s says %q", r.Method, r.Path, text)
		}
	}
}

// The golden file shows which roles may use each route, and whether keys with a queue scope may.
func TestPermissionMatrix(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	roles := tenancy.Roles()
	fmt.Fprintf(&b, "%-58s %-13s", "route", "permission")
	for _, role := range roles {
		fmt.Fprintf(&b, " %-8s", role)
	}
	b.WriteString(" queue_scope") // whether keys with a queue scope may use the route
	s := &server.Server{}
	for _, r := range append(s.Routes(), s.Procedures()...) {
		name := r.Method + " " + r.Path
		if r.Unbuilt {
			name += " (501)"
		}
		fmt.Fprintf(&b, "\n%-58s %-13s", name, r.Permission)
		for _, role := range roles {
			word := "-"
			if r.Permission == serve.Open || role.Grants(r.Permission) {
				word = "yes"
			}
			fmt.Fprintf(&b, " %-8s", word)
		}
		if server.Whole(r) {
			b.WriteString(" -")
		} else {
			b.WriteString(" yes")
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	golden(t, filepath.Join("testdata", "permissions.golden"), []byte(strings.Join(lines, "\n")+"\n"))
}

// Every route below /api/v1 that changes something needs a key, and the open routes are a short list.
func TestOpenRoutes(t *testing.T) {
	t.Parallel()
	open := map[string]bool{
		"GET /api/v1/info": true, "GET /healthz": true, "GET /readyz": true, "GET /openapi.json": true,
		"GET /ui/": true,
	}
	for _, r := range (&server.Server{}).Routes() {
		name := r.Method + " " + r.Path
		if (r.Permission == serve.Open) != open[name] {
			t.Errorf("%s: permission %q", name, r.Permission)
		}
	}
}
