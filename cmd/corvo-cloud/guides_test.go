package main

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api/client"
	"github.com/corvo/corvo/cmd/internal/proctest"
)

// notHere are the documents whose curl lines are for something else than a cloud that
// has just been started.
var notHere = map[string]string{
	"cloud":      "parts on machines of their own",
	"cluster":    "three nodes",
	"deploy":     "installed nodes",
	"keys":       "a node: the control plane keeps the keys of a cloud's namespaces",
	"operations": "a node whose data directory is at hand",
}

// TestTheGuidesAreTrueInAnyOrder pastes the curl lines of all guides at one cloud, a
// guide after the other, and at another cloud in a shuffled order.
func TestTheGuidesAreTrueInAnyOrder(t *testing.T) {
	t.Parallel()
	proctest.NeedCurl(t)
	all, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	guides := slices.DeleteFunc(all, func(path string) bool {
		return notHere[strings.TrimSuffix(filepath.Base(path), ".md")] != "" || len(proctest.Steps(t, path)) == 0
	})
	if len(guides) < 15 {
		t.Fatalf("there are %d guides: %q", len(guides), guides)
	}
	shuffled := slices.Clone(guides)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for name, order := range map[string][]string{"in their order": guides, "shuffled": shuffled} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDev(t, t.TempDir())
			// On a disk that others keep busy the first view takes its time.
			c := d.client(t)
			eventually(t, t.Context(), "a list of queues", func() bool { _, err := c.Queues(t.Context(), client.Read{}); return err == nil })
			t.Logf("the order is %q", order)
			for _, path := range order {
				t.Log(path)
				proctest.Walk(t, path, "CORVO_ENDPOINT="+d.env["CORVO_ENDPOINT"], "CORVO_API_KEY="+d.env["CORVO_API_KEY"])
			}
		})
	}
}
