package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestTheReadmeIsTrue pastes the README's curl lines about the cloud in their order at a fresh cloud.
func TestTheReadmeIsTrue(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	d := startDev(t, t.TempDir())
	lines := proctest.CurlLines(t, "../../README.md", "$CORVO_ENDPOINT")
	if len(lines) < 9 {
		t.Fatalf("the README has %d curl lines for the cloud", len(lines))
	}
	// Wait, because the first view takes long on a busy disk.
	c := d.client(t)
	eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
	var env []string
	for name, value := range d.env {
		env = append(env, name+"="+value)
	}
	var fetched api.FetchedJob
	for _, line := range lines {
		line = strings.NewReplacer("JOB_ID", fetched.JobID, "LEASE_TOKEN", fetched.LeaseToken).Replace(line)
		answer := proctest.Paste(t, line, env...)
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
