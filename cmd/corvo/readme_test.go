package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
)

// shellBlocks are the fenced blocks of the README, each command on one line.
func shellBlocks(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(text), "```") {
		if i%2 == 1 {
			blocks = append(blocks, strings.ReplaceAll(part, "\\\n", ""))
		}
	}
	return strings.Join(blocks, "\n")
}

// TestTheReadmeIsTrue pastes the README's curl lines, in their order, at a fresh
// node.
func TestTheReadmeIsTrue(t *testing.T) {
	t.Parallel()
	needCurl(t)
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	lines := regexp.MustCompile(`(?m)^curl .*$`).FindAllString(shellBlocks(t), -1)
	if len(lines) < 6 {
		t.Fatalf("the README has %d curl lines", len(lines))
	}
	// On a disk that others keep busy the first view takes its time.
	c := newClient(t, p.endpoint, adminKey(t, dir))
	eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
	var fetched api.FetchedJob
	for _, line := range lines {
		command := strings.NewReplacer(
			"localhost:8080", strings.TrimPrefix(p.endpoint, "http://"),
			"$KEY", adminKey(t, dir),
			"JOB_ID", fetched.JobID,
			"LEASE_TOKEN", fetched.LeaseToken,
			"curl -s", "curl -sS --fail-with-body",
		).Replace(line)
		answer := paste(t, command)
		if !json.Valid(answer) {
			t.Errorf("%s\nanswered %s", line, answer)
		}
		if strings.Contains(line, "/fetch") {
			if err := json.Unmarshal(answer, &fetched); err != nil || fetched.JobID == "" {
				t.Fatalf("%s\nanswered %s (%v)", line, answer, err)
			}
		}
	}
}
