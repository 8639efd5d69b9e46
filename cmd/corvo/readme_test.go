package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestTheReadmeIsTrue pastes the README's curl lines about a node in their order at a fresh node.
func TestTheReadmeIsTrue(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	lines := proctest.CurlLines(t, "../../README.md", "localhost:8080")
	if len(lines) < 3 {
		t.Fatalf("the README has %d curl lines for a node", len(lines))
	}
	// Wait, because the first view takes long on a busy disk.
	c := newClient(t, p.endpoint, adminKey(t, dir))
	eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
	for _, line := range lines {
		line = strings.ReplaceAll(line, "localhost:8080", strings.TrimPrefix(p.endpoint, "http://"))
		if answer := proctest.Paste(t, line, "KEY="+adminKey(t, dir)); !json.Valid(answer) {
			t.Errorf("%s\nanswered %s", line, answer)
		}
	}
}
