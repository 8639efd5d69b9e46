package main

import (
	"strings"
	"testing"

	"github.com/corvo/corvo/cmd/internal/proctest"
)

// TestALowLimitOfFilesIsSaid checks that a process warns, with the numbers, if it may open fewer files than
// it may need.
func TestALowLimitOfFilesIsSaid(t *testing.T) {
	t.Parallel()
	binary := proctest.Build(t, "../..", "./cmd/corvo")
	for limit, warned := range map[string]bool{"1200": true, "1300": false} {
		p, err := proctest.Start(t, "/bin/sh", "try: ", "-c", `ulimit -n "$1"; shift; exec "$@"`, "sh", limit, binary,
			"server", "--bind", "127.0.0.1:0", "--raft-bind", "off", "--max-connections", "200", "--data-dir", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(p.Log(), "the limit on open files is low")
		if said != warned || warned && !strings.Contains(p.Log(), "needed=1224") {
			t.Errorf("with a limit of %s: %s", limit, p.Log())
		}
		p.Kill(t)
	}
}
