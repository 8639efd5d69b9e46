package server_test

import (
	"testing"
	"time"

	"github.com/corvo/corvo/dataplane/server"
)

// The answer of a write is read from the view, which may be late. Then the client is asked to try again, and
// does not get an internal error.
func TestWritesAnswerFromALateView(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(cfg *server.Config) { cfg.ReadWait = 100 * time.Microsecond })
	for i := range 400 {
		a := n.send("PUT", "/api/v1/queues/q", n.admin, `{"paused":true}`)
		if a.status != 200 && a.status != 503 {
			t.Fatalf("PUT %d: %d %s", i, a.status, a.body)
		}
	}
}
