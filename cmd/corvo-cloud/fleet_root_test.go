package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corvo/corvo/api"
)

// TestServerPrintsTheFleetsRoot compares the root that the control plane prints with the one that the registration of a
// host shows, before and after a restart.
func TestServerPrintsTheFleetsRoot(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), ""
	for _, host := range []string{"first", "second"} {
		p := start(t, "the control plane listens on", "server", "--bind", "127.0.0.1:0", "--data-dir", dir, "--endpoint", "http://127.0.0.1:1")
		key, err := os.ReadFile(filepath.Join(dir, operatorKeyFile))
		if err != nil {
			t.Fatal(err)
		}
		made, err := newCloud(t, "https://"+listening(p), strings.TrimSpace(string(key)), trusting(t, dir)).CreateHost(t.Context(), api.CreateHostRequest{Name: host})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(p.Greeting, "the SHA-256 of the fleet's root is "+made.FleetRoot) {
			t.Errorf("the host %s is told the root %q, and the control plane says %q", host, made.FleetRoot, p.Greeting)
		}
		if root != "" && made.FleetRoot != root {
			t.Errorf("after a restart the root is %s, and it was %s", made.FleetRoot, root)
		}
		root = made.FleetRoot
		if err := p.Terminate(t); err != nil {
			t.Fatal(err)
		}
	}
}
