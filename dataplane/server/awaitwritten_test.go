package server

import (
	"testing"
	"time"
)

// What a write answers is read from the view, which may be late: then the client is
// told to try again, and never that something broke.
func TestWritesAnswerFromALateView(t *testing.T) {
	t.Parallel()
	n := startNode(t, func(cfg *Config) { cfg.ReadWait = 100 * time.Microsecond })
	for i := range 400 {
		a := n.send("PUT", "/api/v1/queues/q", n.admin, `{"paused":true}`)
		if a.status != 200 && a.status != 503 {
			t.Fatalf("PUT %d: %d %s", i, a.status, a.body)
		}
	}
}
