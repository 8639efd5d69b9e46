package proctest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
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
// "NAME=value".
func Paste(t testing.TB, line string, env ...string) []byte {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// curlLine matches a curl command, which may continue on the next line within quotes.
var curlLine = regexp.MustCompile(`(?m)^curl (?:[^'\n]|'[^']*')*$`)

// CurlLines returns the curl commands with a word in the fenced blocks of a document, in
// order. They get flags that make curl fail on an error answer.
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
