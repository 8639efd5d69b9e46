package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// The tests of this package use these words. They build the real binary once and run it. A process is a
// running server on a port that the system chose; startServer waits for its greeting, and launch returns the
// error of a start that fails. corvo runs a command line to its end and returns an answer, which is its
// output and exit code; corvoFed also gives it a stdin. A trio is a cluster of three processes. within is the
// deadline of a test, and eventually polls a condition until then. Profiles of the person who runs the tests
// are out of reach.

func TestMain(m *testing.M) {
	// The tests must not use the profiles of the person who runs them.
	os.Setenv("XDG_CONFIG_HOME", filepath.Join(os.TempDir(), "corvo-test-without-profiles"))
	os.Unsetenv("CORVO_PROFILE")
	proctest.Main(m)
}

// process is a running `corvo server`.
type process struct {
	*proctest.Process
	endpoint string
}

var endpointPattern = regexp.MustCompile(`listens on (http://\S+?),`)

// startServer runs the real binary on a port of its own choosing and waits for
// its greeting.
func startServer(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := launch(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func launch(t *testing.T, args ...string) (*process, error) {
	t.Helper()
	binary := proctest.Build(t, "../..", "./cmd/corvo")
	p, err := proctest.Start(t, binary, "try: ", append([]string{"server", "--bind", "127.0.0.1:0", "--raft-bind", "off", "--log-level", "warn"}, args...)...)
	if err != nil {
		return nil, err
	}
	found := endpointPattern.FindStringSubmatch(strings.Join(p.Greeting, "\n"))
	if found == nil {
		t.Fatalf("the greeting names no endpoint: %q", p.Greeting)
	}
	return &process{Process: p, endpoint: found[1]}, nil
}

func adminKey(t *testing.T, dataDir string) string {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(dataDir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(key))
}

func newClient(t *testing.T, endpoint, key string) *client.Client {
	t.Helper()
	c, err := client.New(endpoint, key, client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// eventually waits for a condition; each try may block as long as it likes.
func eventually(t *testing.T, ctx context.Context, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within the test's time", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
