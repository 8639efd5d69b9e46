package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestEveryServerSaysWhatItIs checks that every server, without a credential, names itself at its root,
// serves the documents listed there and shows them at /docs.
func TestEveryServerSaysWhatItIs(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	names := map[string]string{}
	d := startDev(t, t.TempDir())
	names[d.env["CORVO_ENDPOINT"]] = "Corvo cloud"
	for part, name := range map[string]string{"control plane": "Corvo control plane", "host": "Corvo cloud host"} {
		found := regexp.MustCompile(part + ` on (\S+)`).FindStringSubmatch(strings.Join(d.Greeting, "\n"))
		if found == nil {
			t.Fatalf("the banner does not say where the %s listens: %q", part, d.Greeting)
		}
		names[found[1]] = name
	}
	node, err := proctest.Start(t, proctest.Build(t, "../..", "./cmd/corvo"), "try: ", "server", "--dev", "--data-dir", t.TempDir(), "--bind", "127.0.0.1:0", "--log-level", "warn")
	if err != nil {
		t.Fatal(err)
	}
	names[regexp.MustCompile(`listens on (\S+),`).FindStringSubmatch(strings.Join(node.Greeting, "\n"))[1]] = "Corvo node"
	for url, name := range names {
		var told struct {
			Name    string
			OpenAPI []struct{ URL string }
		}
		body := proctest.Paste(t, "curl -sS --fail-with-body "+url)
		if err := json.Unmarshal(body, &told); err != nil || told.Name != name || len(told.OpenAPI) == 0 {
			t.Errorf("%s answers %s, %v", name, body, err)
		}
		paths := []string{"/docs", "/docs/swagger-ui-bundle.js"}
		for _, document := range told.OpenAPI {
			paths = append(paths, document.URL)
		}
		for _, path := range paths {
			resp, err := http.Get(url + path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s answers %s", name, path, resp.Status)
			}
		}
	}
}
