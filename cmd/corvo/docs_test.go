package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestTheGuidesAreTrue pastes the curl lines of the guides at a fresh node each, and
// holds what it answers against what they say.
func TestTheGuidesAreTrue(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	for _, guide := range []string{"jobs", "queues", "schedules", "flows", "limits", "budgets", "usage", "agents", "approvals", "alerts", "webhooks", "events", "search", "bulk", "audit", "rpc", "keys"} {
		t.Run(guide, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("../../docs", guide+".md")
			if n := len(proctest.Steps(t, path)); n < 5 {
				t.Fatalf("%s has %d curl lines", path, n)
			}
			dir := t.TempDir()
			p := startServer(t, "--data-dir", dir)
			key := adminKey(t, dir)
			c := newClient(t, p.endpoint, key)
			eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
			proctest.Walk(t, path, "CORVO_ENDPOINT="+p.endpoint, "CORVO_API_KEY="+key)
		})
	}
}

// The lines about profiles fetch one and read it.
func TestTheProfileLinesWork(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	text, err := os.ReadFile("../../docs/keys.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile("(?m)^curl .*/debug/pprof/.*\n(.*\n)*?```").FindString(string(text))
	if !strings.Contains(lines, "go tool pprof") {
		t.Fatalf("the guide has no such lines: %q", lines)
	}
	dir := t.TempDir()
	p := startServer(t, "--data-dir", dir)
	printed := proctest.Paste(t, "set -e; cd "+t.TempDir()+"\n"+strings.TrimSuffix(lines, "```"), "CORVO_ENDPOINT="+p.endpoint, "CORVO_API_KEY="+adminKey(t, dir))
	if !strings.Contains(string(printed), "Type: inuse_space") {
		t.Errorf("pprof prints %s", printed)
	}
}
