package proctest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// NeedCurl skips a test that runs curl commands if curl is not installed. On CI it fails
// instead, because .ci/run installs curl.
func NeedCurl(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("curl is missing on CI")
	}
	t.Skip("no curl on this machine")
}

// Paste runs a line in a shell, as a new user would, with additional variables, each
// "NAME=value". A line that has not ended after StartTimeout fails the test.
func Paste(t testing.TB, line string, env ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), StartTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.WaitDelay = time.Second // because a child of the killed shell may keep the pipe open
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// Shell returns the variables of a shell that finds our commands, such as "./cmd/corvo", and
// keeps the profiles of the command line in a directory of its own. root is the relative
// path of the module's root.
func Shell(t testing.TB, root string, commands ...string) []string {
	t.Helper()
	dir := t.TempDir()
	for _, command := range commands {
		if err := os.Symlink(Build(t, root, command), filepath.Join(dir, filepath.Base(command))); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + filepath.Join(dir, "config")}
}

// curlLine matches a curl command, which may continue on the next line within quotes.
var curlLine = regexp.MustCompile(`(?m)^curl (?:[^'\n]|'[^']*')*$`)

// CurlLines returns those curl commands in the fenced blocks of a document that contain word, in order. They
// get flags that make curl fail on an error answer.
func CurlLines(t testing.TB, path, word string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue
		}
		for _, line := range curlLine.FindAllString(strings.ReplaceAll(block, "\\\n", ""), -1) {
			if strings.Contains(line, word) {
				lines = append(lines, strings.Replace(line, "curl -s", "curl -sS --fail-with-body", 1))
			}
		}
	}
	return lines
}
