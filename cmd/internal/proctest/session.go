package proctest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Session is the shell of a reader who pastes commands one after the other, so that each finds the functions, variables and
// background processes of those before it. The shell has a loopback interface and process ids of its own: every port is free,
// and the kernel ends the processes of the session with the shell.
type Session struct {
	stdin io.WriteCloser
	lines chan string
	says  safeBuilder // standard error
}

// NoSessions returns an error if this machine cannot isolate a Session.
func NoSessions() error {
	command, args := isolated("bash", "-c", "ip link set lo up")
	if out, err := exec.Command(command, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("a shell with a network and processes of its own needs Linux, unshare (util-linux), ip (iproute2), bash, and root or user namespaces: %w: %s", err, out)
	}
	return nil
}

// isolated returns the command line that runs a command in namespaces of its own. As another user than root it needs a user
// namespace, which some machines refuse to root.
func isolated(command string, args ...string) (string, []string) {
	flags := []string{"--net", "--pid", "--fork", "--kill-child"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--map-root-user")
	}
	return "unshare", append(append(flags, command), args...)
}

// OpenSession starts a shell in a directory, with additional variables. The shell ends with the test, also if the test is
// killed, because its standard input ends then.
func OpenSession(t testing.TB, dir string, env ...string) *Session {
	t.Helper()
	command, args := isolated("bash")
	cmd := exec.Command(command, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	s := &Session{lines: make(chan string)}
	cmd.Stderr = &s.says
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stdin = stdin
	go func() {
		defer close(s.lines)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if line != "" {
				s.lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // --kill-child ends the shell too
		for range s.lines {
		}
		if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Error(err)
		}
	})
	s.Paste(t, "ip link set lo up")
	return s
}

// Walk runs those commands of a document whose Where is empty or equal to where, compares the answers with the documented
// ones, and returns the number of commands that it ran. The log of the test has the time of each.
func (s *Session) Walk(t testing.TB, path, where string) (ran int) {
	t.Helper()
	return walk(t, path, where, func(command string) []byte {
		began := time.Now()
		defer func() { t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), command) }()
		return s.Paste(t, command)
	})
}

// endOfAnswer begins the line that follows the answer to a command. The exit code of the command ends the line.
const endOfAnswer = "-- the command ended with "

// Paste runs a command and returns its standard output. It fails the test if the command fails, or has not ended after
// StartTimeout.
func (s *Session) Paste(t testing.TB, command string) []byte {
	t.Helper()
	// Braces run the command in the shell itself. The newline before the marker ends a last line without one.
	if _, err := fmt.Fprintf(s.stdin, "{ %s\n} </dev/null; echo \"\n%s$?\"\n", command, endOfAnswer); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, s.says.String())
	}
	var answer strings.Builder
	for deadline := time.After(StartTimeout); ; {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("%s: the shell ended\n%s%s", command, answer.String(), s.says.String())
			}
			text, ended := strings.CutPrefix(line, endOfAnswer)
			if !ended {
				answer.WriteString(line)
				continue
			}
			if code, err := strconv.Atoi(strings.TrimSpace(text)); code != 0 || err != nil {
				t.Fatalf("%s: exit code %s%s%s", command, text, answer.String(), s.says.String())
			}
			return []byte(answer.String())
		case <-deadline:
			t.Fatalf("%s: no end after %v\n%s%s", command, StartTimeout, answer.String(), s.says.String())
		}
	}
}
