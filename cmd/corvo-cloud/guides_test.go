package main

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestTheGuidesAreTrueInAnyOrder pastes the commands of all guides at one cloud, a guide
// after the other, and at another cloud in a shuffled order. It leaves out only the commands
// below a comment such as "# on a node:" in the guide, which tells the reader the same.
func TestTheGuidesAreTrueInAnyOrder(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	guides, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shuffled := slices.Clone(guides)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for name, order := range map[string][]string{"in their order": guides, "shuffled": shuffled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The reader's directory has cloud-data, as after make run.
			dir := t.TempDir()
			d := startDev(t, filepath.Join(dir, "cloud-data"))
			env := proctest.Shell(t, "../..", "./cmd/corvo", "./cmd/corvo-cloud")
			for name, value := range d.env {
				env = append(env, name+"="+value)
			}
			// Wait, because the first view takes long on a busy disk.
			c := d.client(t)
			eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
			t.Logf("the order is %q", order)
			ran := 0
			for _, path := range order {
				began := time.Now()
				n := proctest.Walk(t, path, proctest.Cloud, dir, env...)
				t.Logf("%s: %d commands in %v", path, n, time.Since(began).Round(time.Millisecond))
				ran += n
			}
			if ran < 200 {
				t.Errorf("the guides have only %d commands for a cloud", ran)
			}
		})
	}
}

// TestTheGuideOfTheFleetIsTrue pastes the guide's commands into one shell, as an operator does: three processes of the control
// plane, four hosts and two gateways, kills, a drain, another number of replicas and a move.
func TestTheGuideOfTheFleetIsTrue(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	if err := proctest.NoSessions(); err != nil {
		t.Skip(err)
	}
	s := proctest.OpenSession(t, t.TempDir(), proctest.Shell(t, "../..", "./cmd/corvo", "./cmd/corvo-cloud")...)
	if n := s.Walk(t, "../../docs/fleet.md", "one machine"); n < 30 {
		t.Errorf("the guide has only %d commands", n)
	}
}
