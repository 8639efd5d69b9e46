package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCloudUsageNamesNamespaces checks that people see a namespace's name and programs its permanent id.
func TestCloudUsageNamesNamespaces(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cloud/v1/orgs/acme/namespaces":
			fmt.Fprint(w, `{"items":[{"id":"ns_1","name":"orders"}]}`)
		case "/cloud/v1/orgs/acme/usage":
			fmt.Fprint(w, `{"groups":[{"key":"ns_1"},{"key":"ns_2"}],"complete_until":"2026-11-01T10:00:00Z",
				"late_sources":[{"namespace":"ns_1","stream":"shard/3","complete_until":"2026-11-01T10:00:00Z"},{"stream":"gateway/gw_1","complete_until":"2026-11-01T11:00:00Z"}]}`)
		default:
			t.Error(r.URL)
		}
	}))
	t.Cleanup(server.Close)
	env := []string{"CORVO_ENDPOINT=" + server.URL, "CORVO_CLOUD_TOKEN=t"}
	for output, want := range map[string][]string{"table": {"\norders ", "\nns_2 ", "complete until 2026-11-01T10:00:00Z\n", "\norders     shard/3 ", "\nall        gateway/gw_1 "}, "json": {`"ns_1"`, `"ns_2"`}} {
		a := corvo(t, env, "cloud", "usage", "--org", "acme", "--group-by", "namespace", "--output", output)
		for _, text := range want {
			if a.code != 0 || !strings.Contains(a.stdout, text) {
				t.Errorf("%s: %d, %q is not in %s%s", output, a.code, text, a.stdout, a.stderr)
			}
		}
	}
}
