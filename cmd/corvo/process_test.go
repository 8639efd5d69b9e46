package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corvo/corvo/api/client"
)

// startTimeout is how long a started node may take until it answers. It is
// generous: these tests run beside others on small machines.
const startTimeout = 60 * time.Second

// binary builds corvo once for all tests of the package.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "corvo-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "corvo")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is a running `corvo server`.
type process struct {
	cmd      *exec.Cmd
	endpoint string
	greeting []string // lines up to and including the one with curl
	exited   chan error
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
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{exited: make(chan error, 1)}
	p.cmd = exec.Command(path, append([]string{"server", "--bind", "127.0.0.1:0", "--log-level", "warn"}, args...)...)
	var log strings.Builder
	p.cmd.Stderr = &log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		close(lines)
		p.exited <- p.cmd.Wait()
	}()
	t.Cleanup(func() { p.cmd.Process.Kill() })
	deadline := time.After(startTimeout)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return nil, fmt.Errorf("the server ended: %w\n%s", <-p.exited, log.String())
			}
			p.greeting = append(p.greeting, line)
			if m := endpointPattern.FindStringSubmatch(line); m != nil {
				p.endpoint = m[1]
			}
			if strings.HasPrefix(line, "try: ") {
				go func() {
					for range lines {
					}
				}()
				return p, nil
			}
		case <-deadline:
			p.cmd.Process.Kill()
			return nil, fmt.Errorf("no greeting after %v; so far %q", startTimeout, p.greeting)
		}
	}
}

// kill stops the process as a power cut would, as far as the process can tell.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.exited
}

// terminate asks the process to stop and returns how it ended.
func (p *process) terminate(t *testing.T) error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.exited:
		return err
	case <-time.After(startTimeout):
		return fmt.Errorf("still running %v after SIGTERM", startTimeout)
	}
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
