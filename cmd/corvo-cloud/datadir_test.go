package main

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestADataDirectoryOfAnotherKindIsRefused checks that a node, a development cloud and the parts of a cloud
// refuse each other's data directories before they write anything, and say which directory to pass instead.
func TestADataDirectoryOfAnotherKindIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := startDev(t, dir).Terminate(t); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	code, says := proctest.Run(t, proctest.Build(t, "../..", "./cmd/corvo"), nil, "server", "--dev", "--data-dir", dir, "--bind", "127.0.0.1:0")
	if code != 2 || !strings.Contains(says, "holds the data of a development cloud") || !strings.Contains(says, "--data-dir ./node-data") {
		t.Errorf("corvo server: exit %d: %s", code, says)
	}
	code, says = ends(t, nil, "server", "--data-dir", dir, "--bind", "127.0.0.1:0", "--endpoint", "http://127.0.0.1:1")
	if code != 2 || !strings.Contains(says, "--data-dir ./control-data") {
		t.Errorf("corvo-cloud server: exit %d: %s", code, says)
	}
	if after := tree(t, dir); after != before {
		t.Errorf("a refused start changed the directory from\n%s\nto\n%s", before, after)
	}

	node := t.TempDir()
	p, err := proctest.Start(t, proctest.Build(t, "../..", "./cmd/corvo"), "try: ", "server", "--dev", "--data-dir", node, "--bind", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t); err != nil {
		t.Fatal(err)
	}
	code, says = ends(t, nil, "dev", "--data-dir", node, "--bind", "127.0.0.1:0")
	if code != 2 || !strings.Contains(says, "holds the data of a node") || !strings.Contains(says, "--data-dir ./cloud-data") {
		t.Errorf("corvo-cloud dev: exit %d: %s", code, says)
	}
}

// tree lists the paths below a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		all.WriteString(path + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestDevShowsWhereItListensAndLogsToAFile checks the output of dev: the first two lines are the key and the
// curl line, the terminal gets only warnings, and the file named in the banner gets the whole log with the
// address of each part.
func TestDevShowsWhereItListensAndLogsToAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, err := proctest.Start(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"), "log: ", "dev", "--bind", "127.0.0.1:0", "--data-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(p.Greeting[0], "API key of namespace demo: cv_") || !strings.HasPrefix(p.Greeting[1], "try: curl ") {
		t.Errorf("the banner begins with %q", p.Greeting[:2])
	}
	text, err := os.ReadFile(strings.TrimPrefix(p.Greeting[len(p.Greeting)-1], "log: "))
	if err != nil {
		t.Fatal(err)
	}
	logged := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if strings.Contains(lines.Text(), "msg=listening") {
			logged[regexp.MustCompile(`url=(\S+)`).FindStringSubmatch(lines.Text())[1]] = true
		}
	}
	banner := strings.Join(p.Greeting, "\n")
	shown := regexp.MustCompile(`on (http://127\.0\.0\.1:\d+)`).FindAllStringSubmatch(banner, -1)
	if len(shown) != 3 {
		t.Errorf("the banner names %d addresses, want those of the cloud, its control plane and its host:\n%s", len(shown), banner)
	}
	for _, found := range shown {
		resp, err := http.Get(found[1] + "/healthz")
		if err != nil {
			t.Fatalf("nobody listens where the banner says: %v", err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !logged[found[1]] {
			t.Errorf("%s answers %s, and the log has %v", found[1], resp.Status, logged)
		}
	}
	if strings.Contains(p.Log(), "level=INFO") || !strings.Contains(string(text), "level=INFO") {
		t.Errorf("the terminal shows\n%s", p.Log())
	}
}
