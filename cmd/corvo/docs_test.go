package main

import (
	"path/filepath"
	"testing"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestTheGuidesAreTrue pastes the commands of each guide at a fresh node and compares the answers with the
// guide.
func TestTheGuidesAreTrue(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	for _, guide := range []string{"jobs", "queues", "schedules", "flows", "limits", "budgets", "usage", "agents", "approvals", "alerts", "webhooks", "events", "search", "bulk", "audit", "rpc", "keys", "bench"} {
		t.Run(guide, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("../../docs", guide+".md")
			dir := t.TempDir()
			p := startServer(t, "--data-dir", dir)
			key := adminKey(t, dir)
			c := newClient(t, p.endpoint, key)
			eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
			env := append(proctest.Shell(t, "../..", "./cmd/corvo"), "CORVO_ENDPOINT="+p.endpoint, "CORVO_API_KEY="+key)
			if n := proctest.Walk(t, path, proctest.Node, t.TempDir(), env...); n < 5 {
				t.Errorf("%s has %d commands for a node", path, n)
			}
		})
	}
}
