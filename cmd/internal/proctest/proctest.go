// Package proctest builds our binaries and runs them as processes, for tests that kill them
// and for tests that run the commands of the documentation.
package proctest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// StartTimeout bounds the time from the start of a process to its ready line. It is
// generous, because these tests run beside others on small machines.
const StartTimeout = 2 * time.Minute

var (
	mu     sync.Mutex
	folder string
	built  = map[string]func() (string, error){}
)

// Main runs a package's tests and removes the binaries they have built. The hosts of the tests take namespaces however
// full the disk is. Call Main from TestMain.
func Main(m *testing.M) {
	if err := os.Setenv("CORVO_MAX_DISK_PERCENT", "100"); err != nil {
		panic(err)
	}
	code := m.Run()
	mu.Lock()
	if folder != "" {
		os.RemoveAll(folder)
	}
	mu.Unlock()
	os.Exit(code)
}

// Build builds a command of this module, such as "./cmd/corvo", once for all tests of the
// package, and returns the binary's path. root is the relative path of the module's root.
func Build(t testing.TB, root, command string) string {
	t.Helper()
	return build(t, root, command, "")
}

// BuildWith builds a command as Build does, but with another text of a source file, such as
// for the binary of a later release. file is its path below the root.
func BuildWith(t testing.TB, root, command, file, text string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: other}})
	if err == nil {
		err = errors.Join(os.WriteFile(other, []byte(text), 0o600), os.WriteFile(other+".overlay", overlay, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return build(t, root, command, other+".overlay")
}

// build builds a command once with the sources, and once with each overlay of them.
func build(t testing.TB, root, command, overlay string) string {
	t.Helper()
	mu.Lock()
	if folder == "" {
		dir, err := os.MkdirTemp("", "corvo-test-")
		if err != nil {
			mu.Unlock()
			t.Fatal(err)
		}
		folder = dir
	}
	build := built[command+overlay]
	if build == nil {
		path := filepath.Join(folder, fmt.Sprintf("%d-%s", len(built), filepath.Base(command)))
		build = sync.OnceValues(func() (string, error) {
			args := []string{"build", "-o", path, command}
			if overlay != "" {
				args = slices.Insert(args, 1, "-overlay", overlay)
			}
			cmd := exec.Command("go", args...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("go build %s: %w\n%s", command, err, out)
			}
			return path, nil
		})
		built[command+overlay] = build
	}
	mu.Unlock()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Run runs a binary that must end by itself within a minute, with additional variables, and
// returns its exit code and its standard error.
func Run(t testing.TB, binary string, env []string, args ...string) (code int, says string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), env...)
	err := cmd.Run()
	if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// Process is a running binary.
type Process struct {
	Greeting []string // lines of standard output up to and including the one waited for

	name   string
	cmd    *exec.Cmd
	log    safeBuilder
	lines  chan string
	exited chan struct{}
	err    error // how it ended, once exited is closed
}

// Spawn runs a binary. It is killed at the end of the test.
func Spawn(t testing.TB, binary string, args ...string) (*Process, error) {
	t.Helper()
	p := &Process{
		name: filepath.Base(binary), cmd: exec.Command(binary, args...),
		lines: make(chan string, 64), exited: make(chan struct{}),
	}
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.exited })
	go func() {
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			select {
			case p.lines <- scanner.Text():
			default: // nobody reads after the greeting
			}
		}
		close(p.lines)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Start runs a binary and waits for a line of its standard output that begins with
// ready. It is killed at the end of the test.
func Start(t testing.TB, binary, ready string, args ...string) (*Process, error) {
	t.Helper()
	p, err := Spawn(t, binary, args...)
	if err != nil {
		return nil, err
	}
	deadline := time.After(StartTimeout)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				<-p.exited
				return nil, fmt.Errorf("%s ended: %w\n%s", p.name, p.err, p.Log())
			}
			p.Greeting = append(p.Greeting, line)
			if strings.HasPrefix(line, ready) {
				return p, nil
			}
		case <-deadline:
			return nil, fmt.Errorf("%s: no line %q after %v; so far %q\n%s", p.name, ready, StartTimeout, p.Greeting, p.Log())
		}
	}
}

// Log returns the process's standard error so far.
func (p *Process) Log() string { return p.log.String() }

// Kill ends the process with SIGKILL, which to the process is like a power cut.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.exited
}

// Terminate ends the process with SIGTERM and returns the error of its end.
func (p *Process) Terminate(t testing.TB) error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(StartTimeout):
		return fmt.Errorf("still running %v after SIGTERM", StartTimeout)
	}
}

// safeBuilder is a strings.Builder with a lock.
type safeBuilder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *safeBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Signal sends the process a signal that does not end it.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
