package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/corvo/internal/from03"
	"github.com/corvo/corvo/cmd/corvo/internal/from03/from03test"
)

// TestImport copies from a running 0.3 to a node. The command prints a report and writes new secrets to a
// file that only its owner may read.
func TestImport(t *testing.T) {
	t.Parallel()
	o := from03test.Start(t)
	o.Add("pending", "mails", nil)
	o.Add("dead", "mails", nil)
	o.SetList("auth/keys", map[string]any{"name": "mailer", "namespace": "default", "role": "worker", "enabled": true})
	dir := t.TempDir()
	node := startServer(t, "--data-dir", dir)
	env := []string{"CORVO_ENDPOINT=" + node.endpoint, "CORVO_API_KEY=" + adminKey(t, dir), "CORVO_FROM_KEY=" + from03test.Key}
	secrets := filepath.Join(t.TempDir(), "keys")

	a := corvoFed(t, nil, env, "admin", "import", "--from-0.3", o.URL, "--keys-file", secrets, "--output", "json")
	var report from03.Report
	if err := json.Unmarshal([]byte(a.stdout), &report); a.code != 0 || err != nil || report.Jobs.Copied != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	text, err := os.ReadFile(secrets)
	if err != nil || !strings.HasPrefix(string(text), "mailer\tcv_") {
		t.Errorf("the file of secrets holds %q, %v", text, err)
	}
	if info, err := os.Stat(secrets); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of secrets is %v, %v", info, err)
	}
	again := corvoFed(t, nil, env, "admin", "import", "--from-0.3", o.URL)
	for _, line := range []string{"found 2, copied 0, copied earlier 2", "key   mailer: exists", "mails  2      2"} {
		if !strings.Contains(again.stdout, line) {
			t.Errorf("no %q in\n%s%s", line, again.stdout, again.stderr)
		}
	}
	// A difference between the two sides fails the import.
	o.Add("pending", "a queue/with blanks", nil)
	if a := corvoFed(t, nil, env, "admin", "import", "--from-0.3", o.URL); a.code != exitFailed || !strings.Contains(a.stdout, "differ") || !strings.Contains(a.stderr, "the import is incomplete") {
		t.Errorf("%+v", a)
	}
}

// TestImportIsCalledWrongly checks that a misused import sends nothing.
func TestImportIsCalledWrongly(t *testing.T) {
	t.Parallel()
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "--from-0.3 is missing"},
		{[]string{"--from-0.3", "old-host:8080"}, "not the URL of a server"},
		{[]string{"--from-0.3", "http://127.0.0.1:1", "--keys-file", taken}, "exists"},
		{[]string{"--from-0.3", "http://127.0.0.1:1", "--from-key-file", filepath.Join(t.TempDir(), "none")}, "--from-key-file"},
	} {
		if a := corvoFed(t, nil, nil, append([]string{"admin", "import"}, c.args...)...); a.code != exitMisuse || !strings.Contains(a.stderr, c.says) {
			t.Errorf("%v: %+v does not say %q", c.args, a, c.says)
		}
	}
}

// TestImportWithoutAnOriginal checks that an import that cannot read the original says what to do about the
// original, and gives no advice about the new node or about a run that has not begun.
func TestImportWithoutAnOriginal(t *testing.T) {
	t.Parallel()
	o := from03test.Start(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }))
	t.Cleanup(web.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct{ url, key, says string }{
		{gone.URL, "", "start Corvo 0.3 there, or give its URL with --from-0.3"},
		{o.URL, "wrong", "give an admin key or the admin password of the original with --from-key-file or CORVO_FROM_KEY"},
		{web.URL, "", "is not an answer of Corvo 0.3"},
	} {
		env := []string{"CORVO_ENDPOINT=" + gone.URL, "CORVO_API_KEY=k", "CORVO_FROM_KEY=" + c.key}
		a := corvoFed(t, nil, env, "admin", "import", "--from-0.3", c.url)
		if a.code != exitFailed {
			t.Errorf("%s: exit code %d, want %d", c.url, a.code, exitFailed)
		}
		if !strings.Contains(a.stderr, c.says) {
			t.Errorf("%s: %s does not say %q", c.url, a.stderr, c.says)
		}
		for _, wrong := range []string{"--endpoint", "run it again"} {
			if strings.Contains(a.stderr, wrong) {
				t.Errorf("%s: %s says %q", c.url, a.stderr, wrong)
			}
		}
	}
}

// TestTheOriginalsDirectoryIsRefused checks that a node refuses the data directory of a Corvo 0.3 and leaves
// it unchanged.
func TestTheOriginalsDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]string{
		"one shard": {"corvo.db", "raft/raft.db", "pebble/CURRENT"},
		"shards":    {"corvo.db", "shard-00/raft/raft.db", "shard-01/raft/raft.db"},
		"jobbie":    {"jobbie.db", "raft/raft.db", "pebble/CURRENT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, f := range files {
				path := filepath.Join(dir, f)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before := treeOf(t, dir)
			a := corvo(t, nil, "server", "--bind", "127.0.0.1:0", "--data-dir", dir)
			if a.code != exitMisuse || !strings.Contains(a.stderr, "the data of a Corvo 0.3") || !strings.Contains(a.stderr, "admin import --from-0.3") {
				t.Errorf("%+v", a)
			}
			if after := treeOf(t, dir); !maps.Equal(before, after) {
				t.Errorf("the directory held %v and holds %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

// treeOf returns the sizes of all files below a directory, by path.
func treeOf(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			all[path] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
