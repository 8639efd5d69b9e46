package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/allinone"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// The tests of this package use these words. They build the real binary once and run it. start runs any of
// its commands until a line of its output says that it is ready. A dev is a running `corvo-cloud dev` with
// the environment file that it writes for its user; client and cloud return clients with the keys of that
// file. The parts of a cloud are processes of their own, which tests kill and start again. testTimeout is the
// deadline of a test, and eventually polls a condition until then.

func TestMain(m *testing.M) { proctest.Main(m) }

// testTimeout bounds a whole test. It is long, because disks of shared machines stall.
const testTimeout = 4 * time.Minute

func start(t *testing.T, ready string, args ...string) *proctest.Process {
	t.Helper()
	p, err := proctest.Start(t, proctest.Build(t, "../..", "./cmd/corvo-cloud"), ready, append(args, "--log-level", "warn")...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dev is a running `corvo-cloud dev` with the environment of its user.
type dev struct {
	*proctest.Process
	env map[string]string // of dev.env
}

func startDev(t *testing.T, dir string, args ...string) dev {
	t.Helper()
	p := start(t, "log: ", append([]string{"dev", "--bind", "127.0.0.1:0", "--data-dir", dir}, args...)...)
	return dev{p, readEnv(t, dir)}
}

// tryLine returns the banner's command line that works when pasted.
func (d dev) tryLine(t *testing.T) string {
	t.Helper()
	for _, line := range d.Greeting {
		if line, ok := strings.CutPrefix(line, "try: "); ok {
			return line
		}
	}
	t.Fatalf("the banner has no line to try: %q", d.Greeting)
	return ""
}

func readEnv(t *testing.T, dir string) map[string]string {
	t.Helper()
	path := filepath.Join(dir, allinone.EnvFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v, %v", path, info, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	return env
}

func (d dev) client(t *testing.T) *client.Client {
	t.Helper()
	return newClient(t, d.env["CORVO_ENDPOINT"], d.env["CORVO_API_KEY"])
}

func (d dev) cloud(t *testing.T) *client.Cloud {
	t.Helper()
	return newCloud(t, d.env["CORVO_ENDPOINT"], d.env["CORVO_CLOUD_TOKEN"])
}

func newClient(t *testing.T, endpoint, key string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(endpoint, key, append([]client.Option{client.WithRetries(0)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newCloud(t *testing.T, endpoint, token string, opts ...client.Option) *client.Cloud {
	t.Helper()
	c, err := client.NewCloud(endpoint, token, append([]client.Option{client.WithRetries(0)}, opts...)...)
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
		case <-time.After(20 * time.Millisecond):
		}
	}
}
